// Package wakequeue sends delayed messages to an SQS queue. Placement wakes dispatch with them when
// a due row's time comes, and dispatch wakes managed scaling when capacity providers change, sooner
// than the schedule of each minute would. It is apart from package awsapi so that only the
// functions that wake others have SQS's client. Start at [Queue.Send].
package wakequeue

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// MaxDelay is the longest delay of a message (SQS quotas: message timers). Some emulators accept
// more; AWS does not.
const MaxDelay = 900 * time.Second

// Queue sends messages to one SQS queue.
type Queue struct {
	Client *sqs.Client
	URL    string
}

// NewQueue returns the queue with a URL, reached with a configuration of the SDK.
func NewQueue(c aws.Config, url string) *Queue { return &Queue{Client: sqs.NewFromConfig(c), URL: url} }

// Send sends a message to be delivered after delay. SQS counts in whole seconds: Send rounds up, so
// that the message never comes early, and takes a negative delay for none. A delay above [MaxDelay]
// is an error. The SDK repeats a send whose answer was lost, so the message may come twice.
func (q *Queue) Send(ctx context.Context, body []byte, delay time.Duration) error {
	delay = max(delay, 0)
	if delay > MaxDelay {
		return fmt.Errorf("sending message: a delay of %s is above %s", delay, MaxDelay)
	}
	_, err := q.Client.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: &q.URL, MessageBody: aws.String(string(body)),
		DelaySeconds: int32((delay + time.Second - 1) / time.Second), //nolint:gosec // at most 900
	})
	if err != nil {
		return fmt.Errorf("sending message: %w", err)
	}
	return nil
}
