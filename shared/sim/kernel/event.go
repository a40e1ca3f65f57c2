package kernel

import (
	"encoding/json"
	"strconv"
	"time"

	"berth/shared/cluster"
)

// EventTime is the layout of times in the details of most events.
const EventTime = "2006-01-02T15:04:05.000Z"

// Event is the envelope of an EventBridge event.
type Event struct {
	Source, DetailType, ARN string
	// Version tells the changes of one resource apart: the event's id derives from it.
	Version int64
	At      time.Time
}

// Emit queues an event, which goes out after the step. It belongs in a step.
// The event's id is the same for the same change of the same resource, and different for any other.
func (k *Kernel) Emit(e Event, detail []byte) {
	id := cluster.Digest(strconv.FormatUint(k.Seed, 10), e.ARN, strconv.FormatInt(e.Version, 10),
		e.At.Format(EventTime))
	b := append(make([]byte, 0, len(detail)+600), `{"version":"0","id":`...)
	b = AppendString(b, UUID(id))
	b = AppendString(append(b, `,"detail-type":`...), e.DetailType)
	b = AppendString(append(b, `,"source":`...), e.Source)
	b = AppendString(append(b, `,"account":`...), k.Account.ID)
	b = AppendString(append(b, `,"time":`...), e.At.Format(time.RFC3339))
	b = AppendString(append(b, `,"region":`...), k.Account.Region)
	b = AppendString(append(b, `,"resources":[`...), e.ARN)
	b = append(append(b, `],"detail":`...), detail...)
	k.events = append(k.events, append(b, '}'))
}

// AppendString appends s as a JSON string. Plain ASCII, which is almost everything, costs no
// allocation.
func AppendString(b []byte, s string) []byte {
	for n := range len(s) {
		if c := s[n]; c < ' ' || c == '"' || c == '\\' || c > '~' {
			quoted, _ := json.Marshal(s) // never fails for a string
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
