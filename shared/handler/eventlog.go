package handler

import (
	"fmt"
	"reflect"
	"time"

	"berth/shared/cluster"
)

// eventLog is a service's row on its way, with the messages that go with it.
type eventLog struct {
	service  *cluster.Service
	base     *cluster.Service // as last read or written
	messages []string
}

func (l *eventLog) add(message string) { l.messages = append(l.messages, message) }

// changed reports whether the row has to be written: it differs from what is stored, or there is something to tell.
func (l *eventLog) changed() bool {
	now, old := *l.service, *l.base
	now.Head, old.Head = cluster.Head{}, cluster.Head{}
	return len(l.messages) > 0 || !reflect.DeepEqual(now, old)
}

// serviceEvent is the next event of the service's ring. Its id follows from what it is, so that it is the same however
// often it is made.
func serviceEvent(s *cluster.Service, message string, at time.Time) *cluster.ServiceEvent {
	d := cluster.Digest(s.Cluster, s.Short, fmt.Sprint(s.Events))
	return &cluster.ServiceEvent{
		Head: cluster.Head{Cluster: s.Cluster}, Service: s.Short, Slot: s.Events % cluster.EventRing, Number: s.Events,
		ID:        fmt.Sprintf("%s-%s-4%s-8%s-%s", d[:8], d[8:12], d[13:16], d[17:20], d[20:32]),
		CreatedAt: at, Message: message,
	}
}
