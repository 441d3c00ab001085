package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

type request struct {
	ID        string      `json:"id"`
	ModelName string      `json:"model_name"`
	Instances [][]float32 `json:"instances"`
}

type result struct {
	MessageID   string `json:"message_id"`
	ID          string `json:"id"`
	Predictions []struct {
		Label int64 `json:"label"`
	} `json:"predictions"`
	Code  string `json:"code"`
	Error string `json:"error"`
}

func main() {
	ctx := context.Background()
	settings, err := config.LoadDefaultConfig(ctx)
	check(err)
	client := sqs.NewFromConfig(settings)
	waiting := send(ctx, client, [][]float32{{5.1, 3.5, 1.4, 0.2}, {6.2, 2.9, 4.3, 1.3}, {7.7, 3.8, 6.7, 2.2}})
	for len(waiting) > 0 {
		receive(ctx, client, waiting)
	}
}

// send puts a request for each row on the queue, ten at most in a call, and returns their message IDs.
func send(ctx context.Context, client *sqs.Client, rows [][]float32) map[string]bool {
	entries := make([]types.SendMessageBatchRequestEntry, len(rows))
	for i, row := range rows {
		body, err := json.Marshal(request{"row-" + strconv.Itoa(i), "iris", [][]float32{row}})
		check(err)
		entries[i] = types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: aws.String(string(body))}
	}
	sent, err := client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{
		QueueUrl: aws.String(os.Getenv("REQUEST_QUEUE")),
		Entries:  entries,
	})
	check(err)
	for _, refused := range sent.Failed {
		log.Fatalf("row %s was not taken: %s", *refused.Id, *refused.Code)
	}
	waiting := map[string]bool{}
	for _, taken := range sent.Successful {
		waiting[*taken.MessageId] = true
	}
	return waiting
}

// receive prints the results that are waited for, and deletes them once they are printed.
func receive(ctx context.Context, client *sqs.Client, waiting map[string]bool) {
	queue := aws.String(os.Getenv("RESULT_QUEUE"))
	received, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl:            queue,
		MaxNumberOfMessages: 10,
		WaitTimeSeconds:     20,
	})
	check(err)
	for _, message := range received.Messages {
		var scored result
		check(json.Unmarshal([]byte(*message.Body), &scored))
		if !waiting[scored.MessageID] {
			continue
		}
		if scored.Code != "" {
			fmt.Println(scored.ID, scored.Code, scored.Error)
		} else {
			fmt.Println(scored.ID, "is of class", scored.Predictions[0].Label)
		}
		_, err := client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: queue, ReceiptHandle: message.ReceiptHandle})
		check(err)
		delete(waiting, scored.MessageID)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
