package embedded

import (
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

// PutEvent puts one event on the default bus, where AWS services report and where anyone in the
// account may put events; see [Runtime.PutEventOn].
func (r *Runtime) PutEvent(event []byte) error { return r.PutEventOn("", event) }

// PutEventOn puts one event on a bus of the template, named by its logical id, or on the default
// bus if that is empty. The event is sent to the queues of every rule of that bus whose pattern
// lets it pass, and dropped if there is none. It fails for what is no event (a JSON object with
// source, detail-type and detail) and for more than 256 KiB. It may be called from any goroutine.
func (r *Runtime) PutEventOn(bus string, event []byte) error {
	targets, err := r.matchingQueues(bus, event)
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

// matchingQueues returns the queues to which the bus's rules send the event.
func (r *Runtime) matchingQueues(bus string, event []byte) ([]string, error) {
	if len(event) > maxEvent {
		return nil, fmt.Errorf("putting event: it has %d bytes, at most %d are allowed", len(event), maxEvent)
	}
	doc, err := parseJSONText(event)
	if err != nil {
		return nil, fmt.Errorf("putting event: %w", err)
	}
	source, _ := fieldValueOf(doc, "source").(string)
	kind, _ := fieldValueOf(doc, "detail-type").(string)
	if _, ok := fieldValueOf(doc, "detail").(*jsonObject); !ok || source == "" || kind == "" {
		return nil, errors.New("putting event: source, detail-type or detail is missing")
	}
	var targets []string
	for _, rule := range r.wiring.Rules {
		if rule.Bus == bus && rule.Pattern.root.matchObject(doc) {
			targets = append(targets, rule.Queues...)
		}
	}
	return targets, nil
}
