package chaos

import (
	"slices"
	"strings"
)

// Kind is one way to break something.
type Kind struct {
	Name string
	// Subject is what it breaks.
	Subject Subject
	// Does is what happens, as help says it.
	Does string
}

// Subject is a sort of thing that can break.
type Subject string

// The things that can break. Anything is what [Heal] repairs: an instance, a task, or all.
const (
	InstanceSubject Subject = "instance"
	TaskSubject     Subject = "task"
	ZoneSubject     Subject = "zone"
	Anything        Subject = "anything"
)

// The names of the kinds.
const (
	Kill       = "kill"
	Disconnect = "disconnect"
	Crash      = "crash"
	Exit       = "exit"
	Slow       = "slow"
	Unhealthy  = "unhealthy"
	ZoneOut    = "zone-out"
	Heal       = "heal"
)

// Kinds are all ways to break something, and [Heal].
var Kinds = []Kind{
	{Kill, InstanceSubject, "the machine is terminated, as by EC2"},
	{Disconnect, InstanceSubject, "its agent loses the connection to ECS; its tasks keep running"},
	{Crash, InstanceSubject, "the machine stops; ECS sees only that its agent is disconnected"},
	{Exit, TaskSubject, "its container exits, with --exit-code"},
	{Slow, InstanceSubject, "tasks take --seconds longer to start there"},
	{Unhealthy, TaskSubject, "its health checks fail: its container's, and those of its target groups"},
	{ZoneOut, ZoneSubject, "every machine of the cluster in the zone is terminated"},
	{Heal, Anything, "agents are connected again, machines run, starts are as fast as before, checks pass"},
}

// FindKind returns the kind with the name.
func FindKind(name string) (Kind, bool) {
	at := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name })
	if at < 0 {
		return Kind{}, false
	}
	return Kinds[at], true
}

// KindNames returns the names of all kinds, with commas.
func KindNames() string {
	names := make([]string, len(Kinds))
	for n, k := range Kinds {
		names[n] = k.Name
	}
	return strings.Join(names, ", ")
}
