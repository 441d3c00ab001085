import { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { FileSystem } from 'aws-cdk-lib/aws-lambda';
import { type EfsModels, MOUNT_PATH } from '../storage/models.ts';

/** A file system that a function mounts and may not write to: the CDK's own `fromEfsAccessPoint` lets it. */
export class ReadOnlyFileSystem extends FileSystem {
  constructor({ accessPoint }: EfsModels) {
    const { accessPointArn, fileSystem } = accessPoint;
    super({
      localMountPath: MOUNT_PATH,
      arn: accessPointArn,
      dependency: [fileSystem.mountTargetsAvailable],
      connections: fileSystem.connections,
      policies: [
        new PolicyStatement({
          actions: ['elasticfilesystem:ClientMount'],
          resources: [fileSystem.fileSystemArn],
          conditions: { StringEquals: { 'elasticfilesystem:AccessPointArn': accessPointArn } },
        }),
      ],
    });
  }
}
