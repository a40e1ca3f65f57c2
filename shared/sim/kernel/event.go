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

// EmitEvent queues an event, which goes out after the step. It belongs in a step.
// The event's id is the same for the same change of the same resource, and different for any other.
func (k *Kernel) EmitEvent(e Event, detail []byte) {
	id := cluster.Digest(strconv.FormatUint(k.Seed, 10), e.ARN, strconv.FormatInt(e.Version, 10),
		e.At.Format(EventTime))
	b := append(make([]byte, 0, len(detail)+600), `{"version":"0","id":`...)
	b = AppendJSONString(b, FormatUUID(id))
	b = AppendJSONString(append(b, `,"detail-type":`...), e.DetailType)
	b = AppendJSONString(append(b, `,"source":`...), e.Source)
	b = AppendJSONString(append(b, `,"account":`...), k.Account.ID)
	b = AppendJSONString(append(b, `,"time":`...), e.At.Format(time.RFC3339))
	b = AppendJSONString(append(b, `,"region":`...), k.Account.Region)
	b = AppendJSONString(append(b, `,"resources":[`...), e.ARN)
	b = append(append(b, `],"detail":`...), detail...)
	k.events = append(k.events, append(b, '}'))
}

// AppendJSONString appends s as a JSON string. Plain ASCII, which is almost everything, costs no
// allocation.
func AppendJSONString(b []byte, s string) []byte {
	for n := range len(s) {
		if c := s[n]; c < ' ' || c == '"' || c == '\\' || c > '~' {
			quoted, _ := json.Marshal(s) // never fails for a string
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
