package contract

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"berth/shared/awsapi/eventbus"
	"berth/shared/awsapi/wakequeue"
	"berth/shared/awsevent"
)

// newQueue creates a queue in moto and returns its URL.
func newQueue(t *testing.T, name string) (*sqs.Client, string) {
	t.Helper()
	endpoint := motoEndpoint(t)
	client := sqs.New(sqs.Options{Region: region, BaseEndpoint: &endpoint, Credentials: testCredentials})
	made, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name})
	if err != nil {
		t.Fatal(err)
	}
	return client, *made.QueueUrl
}

// receiveAll returns the bodies of the visible messages.
func receiveAll(t *testing.T, client *sqs.Client, url string) (bodies []string) {
	t.Helper()
	out, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range out.Messages {
		bodies = append(bodies, *m.Body)
	}
	return bodies
}

func TestQueue(t *testing.T) {
	client, url := newQueue(t, "wake")
	q := &wakequeue.Queue{Client: client, URL: url}
	t.Run("WhatIsSentArrives", func(t *testing.T) {
		if err := q.Send(t.Context(), []byte(`{"cluster":"c"}`), 0); err != nil {
			t.Fatal(err)
		}
		if got := receiveAll(t, client, url); len(got) != 1 || got[0] != `{"cluster":"c"}` {
			t.Errorf("received %q", got)
		}
	})
	t.Run("WithTheLongestDelayItIsHeldBack", func(t *testing.T) {
		if err := q.Send(t.Context(), []byte("later"), wakequeue.MaxDelay); err != nil {
			t.Fatal(err)
		}
		if got := receiveAll(t, client, url); len(got) != 0 {
			t.Errorf("received %q at once", got)
		}
		out, err := client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
			QueueUrl:       &url,
			AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameApproximateNumberOfMessagesDelayed},
		})
		if err != nil || out.Attributes["ApproximateNumberOfMessagesDelayed"] != "1" {
			t.Errorf("attributes %v, %v", out, err)
		}
	})
	t.Run("BeyondItSQSRefuses", func(t *testing.T) {
		_, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: &url, MessageBody: aws.String("never"), DelaySeconds: int32(wakequeue.MaxDelay/time.Second) + 1,
		})
		if err == nil {
			t.Error("a longer delay is taken: MaxDelay is not the most")
		}
	})
	t.Run("NoQueueIsAnError", func(t *testing.T) {
		var missing *types.QueueDoesNotExist
		if err := (&wakequeue.Queue{Client: client, URL: url + "-gone"}).Send(t.Context(), []byte("x"),
			0); !errors.As(err, &missing) {
			t.Errorf("Send = %v", err)
		}
	})
}

// TestBus sends events through EventBridge, a rule and a queue, as on AWS, and decodes them as
// task-state-change does.
func TestBus(t *testing.T) {
	client, url := newQueue(t, "events")
	endpoint := motoEndpoint(t)
	events := eventbridge.New(eventbridge.Options{Region: region, BaseEndpoint: &endpoint,
		Credentials: testCredentials})
	_, err := events.PutRule(t.Context(), &eventbridge.PutRuleInput{
		Name:         aws.String("load"),
		EventPattern: aws.String(`{"source": ["berth.load"], "detail-type": ["Task Load Report"]}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = events.PutTargets(t.Context(), &eventbridge.PutTargetsInput{
		Rule: aws.String("load"),
		Targets: []eventtypes.Target{{Id: aws.String("q"),
			Arn: aws.String("arn:aws:sqs:" + region + ":123456789012:events")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	bus := &eventbus.Bus{Client: events}
	report := func(source string, n int) []byte {
		return fmt.Appendf(nil, `{"version":"0","id":"i","detail-type":"Task Load Report","source":%q,"time":"2026-11-21T10:00:00Z",
			"resources":["arn:aws:ecs:eu-central-1:123456789012:task/c/%032x"],
			"detail":{"taskArn":"arn:aws:ecs:eu-central-1:123456789012:task/c/%032x","loads":{"connections":%d}}}`, source, n, n, n)
	}
	t.Run("MoreThanOneCallTakesArriveAsTheyWere", func(t *testing.T) {
		var all [][]byte
		for n := range 12 {
			all = append(all, report("berth.load", n))
		}
		left, err := bus.PutEvents(t.Context(), all)
		if err != nil || len(left) != 0 {
			t.Fatalf("%d left, %v", len(left), err)
		}
		bodies := append(receiveAll(t, client, url), receiveAll(t, client, url)...)
		seen := map[string]bool{}
		for _, body := range bodies {
			e, err := (&awsevent.Decoder{}).Decode([]byte(body))
			if err != nil {
				t.Fatalf("%v: %s", err, body)
			}
			load, ok := e.Detail.(*awsevent.Load)
			if !ok || load.Cluster != "c" || !e.Time.Equal(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)) {
				t.Errorf("event %+v", e)
			}
			seen[body] = true
		}
		if len(seen) != 12 {
			t.Errorf("%d events arrived, want 12", len(seen))
		}
	})
	t.Run("OtherSourcesPassNoRule", func(t *testing.T) {
		if _, err := bus.PutEvents(t.Context(), [][]byte{report("somebody.else", 1)}); err != nil {
			t.Fatal(err)
		}
		if got := receiveAll(t, client, url); len(got) > 0 {
			t.Errorf("received %q", got)
		}
	})
	t.Run("WhatIsNoEventIsRefusedForGood", func(t *testing.T) {
		broken := []byte(`{"source":"berth.load","detail-type":"","detail":{}}`)
		left, err := bus.PutEvents(t.Context(), [][]byte{broken, report("berth.load", 99)})
		if err == nil || len(left) != 0 {
			t.Errorf("%d left, %v", len(left), err)
		}
		got := receiveAll(t, client, url)
		if len(got) != 1 || !strings.Contains(got[0], fmt.Sprintf("%032x", 99)) {
			t.Errorf("received %q", got)
		}
	})
}
