import com.amazon.sqs.javamessaging.AmazonSQSExtendedClient;
import com.amazon.sqs.javamessaging.ExtendedClientConfiguration;
import java.util.Collections;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.sqs.SqsClient;

public class Send {
  public static void main(String[] args) {
    // false: deleting a result from the queue leaves its object to the bucket's own expiry.
    var configuration = new ExtendedClientConfiguration()
        .withPayloadSupportEnabled(S3Client.create(), System.getenv("PAYLOAD_BUCKET"), false)
        .withS3KeyPrefix("requests/");
    try (var sqs = new AmazonSQSExtendedClient(SqsClient.create(), configuration)) {
      var rows = String.join(",", Collections.nCopies(10_000, "[5.0999999046,3.5,1.3999999762,0.200000003]"));
      var meadow = "{\"id\":\"meadow\",\"model_name\":\"iris\",\"instances\":[" + rows + "]}";
      var body = "[" + String.join(",", meadow, meadow, meadow) + "]";
      var messageId = sqs.sendMessage(call -> call.queueUrl(System.getenv("REQUEST_QUEUE")).messageBody(body)).messageId();

      var results = System.getenv("RESULT_QUEUE");
      for (var found = false; !found; ) {
        var messages = sqs.receiveMessage(call ->
            call.queueUrl(results).waitTimeSeconds(20).messageAttributeNames("All")).messages();
        for (var message : messages) {
          if (!message.messageAttributes().get("messageId").stringValue().equals(messageId)) continue;
          found = true;
          System.out.println(message.body().length() + " characters: " + message.body().substring(0, 100));
          sqs.deleteMessage(call -> call.queueUrl(results).receiptHandle(message.receiptHandle()));
        }
      }
    }
  }
}
