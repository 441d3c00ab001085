import type { IVpc } from 'aws-cdk-lib/aws-ec2';
import { Cluster, ContainerInsights } from 'aws-cdk-lib/aws-ecs';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { Construct } from 'constructs';
import { warn } from '../base/warn.ts';

export interface ClusterOptions {
  readonly encryptionKey: IKey | undefined;
  readonly onFargate: boolean;
}

/** A cluster for one service, which counts its tasks: its scaling and its alarms go by that. */
export function createCluster(scope: Construct, vpc: IVpc, { encryptionKey, onFargate }: ClusterOptions): Cluster {
  const diskKey = onFargate ? encryptionKey : undefined;
  if (diskKey?.node.defaultChild === undefined && diskKey !== undefined) warnOfDisks(scope);
  return new Cluster(scope, 'Cluster', {
    vpc,
    containerInsightsV2: ContainerInsights.ENABLED,
    enableFargateCapacityProviders: onFargate,
    ...(diskKey !== undefined && { managedStorageConfiguration: { fargateEphemeralStorageKmsKey: diskKey } }),
  });
}

/** The CDK adds this to the policy of a key of its own, and cannot to that of an imported one. */
function warnOfDisks(scope: Construct): void {
  warn(
    scope,
    'diskKeyPolicy',
    'encryptionKey: expected a key that Fargate may encrypt disks with, got an imported one, whose policy the CDK neither ' +
      'knows nor changes; let fargate.amazonaws.com do kms:GenerateDataKeyWithoutPlaintext and kms:CreateGrant with it, ' +
      'as https://docs.aws.amazon.com/AmazonECS/latest/developerguide/fargate-create-storage-key.html says',
  );
}
