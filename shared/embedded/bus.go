package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
)

// maxEvent is how many bytes an event may have (EventBridge quotas: PutEvents entry size).
const maxEvent = 256 << 10

// EventCounters counts what was put on the event bus.
type EventCounters struct {
	Put       int
	Refused   int // too large or malformed
	Matched   int // events that at least one rule let pass
	Unmatched int // events that no rule wanted: dropped
	Sent      int // messages sent to queues
}

// PutEvent puts one event on the bus: it is sent to the queues of every rule whose pattern it
// matches, and dropped if it matches none. It is an error if the event is not a JSON object with
// source, detail-type and detail, or has more than 256 KiB. It may be called from any goroutine.
func (r *Runtime) PutEvent(event []byte) error {
	targets, err := r.matchingQueues(event)
	r.runOnLoop(func() {
		r.events.Put++
		switch {
		case err != nil:
			r.events.Refused++
		case r.faults.shouldDropEvent(event):
		case len(targets) == 0:
			r.events.Unmatched++
		default:
			r.events.Matched++
			r.sendToQueues(event, targets)
		}
	})
	return err
}

// sendToQueues counts each message as requests of EventBridge, one per 64 KiB.
func (r *Runtime) sendToQueues(event []byte, targets []string) {
	for _, name := range targets {
		q := r.queues[name]
		q.count.RuleSends += billedRequests(len(event))
		r.events.Sent++
		q.sendMessage(event, 0)
	}
}

// matchingQueues returns the queues that the rules send the event to. A queue of two rules gets it
// twice, as in EventBridge.
func (r *Runtime) matchingQueues(event []byte) ([]string, error) {
	if len(event) > maxEvent {
		return nil, fmt.Errorf("putting event: it has %d bytes, at most %d are allowed", len(event), maxEvent)
	}
	var doc map[string]any
	if err := json.Unmarshal(event, &doc); err != nil {
		return nil, fmt.Errorf("putting event: %w", err)
	}
	source, _ := doc["source"].(string)
	kind, _ := doc["detail-type"].(string)
	if _, ok := doc["detail"].(map[string]any); !ok || source == "" || kind == "" {
		return nil, errors.New("putting event: source, detail-type or detail is missing")
	}
	var targets []string
	for _, rule := range r.wiring.Rules {
		if rule.Pattern.root.matchObject(doc) {
			targets = append(targets, rule.Queues...)
		}
	}
	return targets, nil
}
