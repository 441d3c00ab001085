import { InterfaceVpcEndpointAwsService } from 'aws-cdk-lib/aws-ec2';
import type { Endpoints } from '../compute/privateNetwork.ts';

const OF_TASKS = {
  Sqs: InterfaceVpcEndpointAwsService.SQS,
  Logs: InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
  EcrApi: InterfaceVpcEndpointAwsService.ECR,
  EcrDocker: InterfaceVpcEndpointAwsService.ECR_DOCKER,
};

/** Those of a network whose instances register with ECS. Fargate does that from a network of its own. */
const OF_INSTANCES = {
  ...OF_TASKS,
  Ecs: InterfaceVpcEndpointAwsService.ECS,
  EcsAgent: InterfaceVpcEndpointAwsService.ECS_AGENT,
  EcsTelemetry: InterfaceVpcEndpointAwsService.ECS_TELEMETRY,
};

/**
 * What tasks on Fargate call.
 *
 * @see https://docs.aws.amazon.com/AmazonECS/latest/developerguide/vpc-endpoints.html
 */
export const ENDPOINTS_OF_TASKS: Endpoints = { of: 'tasks', interfaces: OF_TASKS, pullsImages: true };

/** What tasks call, and the instances that they run on. */
export const ENDPOINTS_OF_INSTANCES: Endpoints = { of: 'tasks', interfaces: OF_INSTANCES, pullsImages: true };
