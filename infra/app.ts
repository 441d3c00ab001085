import { App } from 'aws-cdk-lib';
import { QueuesStack } from './queuesStack.ts';

const app = new App();
new QueuesStack(app, 'Batchscore');
