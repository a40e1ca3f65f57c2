// Package eventbus sends events to EventBridge's default bus: service events of dispatch, and what
// the simulated AWS of `berth fleet` emits. Events come in as EventBridge delivers them, and go out
// as PutEvents takes them. It is apart from package awsapi so that only the functions that publish
// have its client. Start at [Bus.PutEvents].
package eventbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
)

// putBatch is how many events one call of PutEvents takes (EventBridge quotas).
const putBatch = 10

// Bus sends events to EventBridge's default bus. EventBridge refuses those whose source begins with
// "aws.".
type Bus struct {
	Client *eventbridge.Client
}

// NewBus returns the default bus of the account and Region that a configuration of the SDK names.
func NewBus(c aws.Config) *Bus { return &Bus{Client: eventbridge.NewFromConfig(c)} }

// PutEvents sends events, each as EventBridge delivers it (JSON with source, detail-type, time,
// resources and detail), in order and ten a call. It returns as left, in order, the events to send
// again: those that EventBridge cannot take just now, those of a call that failed, and all after
// them. An event that will never be accepted is only in the error. EventBridge gives the events ids
// of its own, and an event whose answer was lost may come twice.
func (b *Bus) PutEvents(ctx context.Context, events [][]byte) (left [][]byte, err error) {
	var failed []error
	for len(events) > 0 {
		batch := events[:min(putBatch, len(events))]
		again, err := b.putBatch(ctx, batch)
		if err != nil {
			failed = append(failed, err)
		}
		left = append(left, again...)
		events = events[len(batch):]
		if len(again) > 0 {
			return append(left, events...), errors.Join(failed...)
		}
	}
	return left, errors.Join(failed...)
}

func (b *Bus) putBatch(ctx context.Context, batch [][]byte) (again [][]byte, err error) {
	in := &eventbridge.PutEventsInput{}
	var sent [][]byte
	var failed []error
	for _, event := range batch {
		entry, err := entryFromEvent(event)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		in.Entries, sent = append(in.Entries, entry), append(sent, event)
	}
	if len(sent) == 0 {
		return nil, errors.Join(failed...)
	}
	out, err := b.Client.PutEvents(ctx, in)
	if err != nil {
		return sent, errors.Join(append(failed, fmt.Errorf("putting %d events: %w", len(sent), err))...)
	}
	for i, entry := range out.Entries {
		code := aws.ToString(entry.ErrorCode)
		if code == "" || i >= len(sent) {
			continue
		}
		failed = append(failed, fmt.Errorf("putting an event: %s: %s", code, aws.ToString(entry.ErrorMessage)))
		if slices.Contains(passing, code) {
			again = append(again, sent[i])
		}
	}
	return again, errors.Join(failed...)
}

// passing are the codes with which EventBridge refuses an event that it may accept later.
var passing = []string{"ThrottlingException", "InternalFailure", "InternalException"}

// entryFromEvent returns an event as an entry of PutEvents, without its id, account and Region,
// which EventBridge sets itself.
func entryFromEvent(event []byte) (types.PutEventsRequestEntry, error) {
	var e struct {
		Source     string          `json:"source"`
		DetailType string          `json:"detail-type"`
		Time       time.Time       `json:"time"`
		Resources  []string        `json:"resources"`
		Detail     json.RawMessage `json:"detail"`
	}
	if err := json.Unmarshal(event, &e); err != nil {
		return types.PutEventsRequestEntry{}, fmt.Errorf("reading an event: %w", err)
	}
	return types.PutEventsRequestEntry{
		Source: &e.Source, DetailType: &e.DetailType, Time: &e.Time, Resources: e.Resources,
		Detail: aws.String(string(e.Detail)),
	}, nil
}
