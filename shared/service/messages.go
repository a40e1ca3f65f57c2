package service

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"berth/shared/cluster"
)

// maxMessage bounds a service event, in bytes: a hundred task ids or so.
const maxMessage = 4096

// SteadyState is the event of a service whose tasks are all RUNNING, in ECS's words as are all that follow (S12).
func SteadyState(name string) string { return event(name, "has reached a steady state.") }

// Started is the event of tasks started. Of very many, the first are named and the rest counted.
func Started(name string, ids []string) string {
	return listed(event(name, fmt.Sprintf("has started %d tasks:", len(ids))), ids)
}

// Stopped is the event of RUNNING tasks stopped, named as in [Started].
func Stopped(name string, ids []string) string {
	return listed(event(name, fmt.Sprintf("has stopped %d running tasks:", len(ids))), ids)
}

// StoppedPending is the event of n tasks stopped before they were RUNNING.
func StoppedPending(name string, n int) string {
	return event(name, fmt.Sprintf("stopped %d pending tasks.", n))
}

// DeploymentCompleted is the event of a deployment that has reached its desired count.
func DeploymentCompleted(name, deployment string) string {
	return event(name, "(deployment "+deployment+") deployment completed.")
}

// UnableToPlace is the event of a task that found no instance: ECS's words first, whose closest instance says little,
// then all that Berth knows (P17).
func UnableToPlace(name string, d *cluster.Diagnosis) string {
	text := "was unable to place a task because no container instance met all of its requirements."
	switch {
	case d.Evaluated == 0:
		text += " Reason: No Container Instances were found in your cluster."
	case d.Closest != "":
		text += " The closest matching (container-instance " + d.Closest + ") " + lacks(d.ClosestFilter) + "."
	}
	text += " For more information, see the Troubleshooting section of the Amazon ECS Developer Guide."
	if d.Evaluated > 0 {
		text += " " + d.String()
	}
	return bounded(event(name, text))
}

// lacks says what is wrong with an instance as ECS does, where it has words for it.
func lacks(f cluster.Filter) string {
	switch f {
	case cluster.FilterCPU:
		return "has insufficient CPU units available"
	case cluster.FilterMemory:
		return "has insufficient memory available"
	case cluster.FilterPort:
		return "is already using a port required by your task"
	case cluster.FilterAttribute:
		return "is missing an attribute required by your task"
	}
	return `encountered error "` + f.Failure() + `"`
}

func event(name, text string) string { return "(service " + name + ") " + text }

// listed appends the ids, as many as fit.
func listed(head string, ids []string) string {
	var b strings.Builder
	b.WriteString(head)
	for i, id := range ids {
		entry := " (task " + id + ")"
		if b.Len()+len(entry)+len(" and 2147483647 more.") > maxMessage {
			fmt.Fprintf(&b, " and %d more", len(ids)-i)
			break
		}
		b.WriteString(entry)
	}
	return b.String() + "."
}

// bounded cuts what is too long, between characters.
func bounded(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	const more = "…"
	cut := maxMessage - len(more)
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + more
}

// Move is one task on its way to another instance.
type Move struct{ Task, From, To, Why string }

// Moving is the event of tasks whose replacement on another instance was started, or that were stopped for it.
func Moving(name string, moves []Move) string {
	entries := make([]string, len(moves))
	for i, m := range moves {
		entries[i] = fmt.Sprintf("%s) (from %s to %s: %s", m.Task, m.From, m.To, m.Why)
	}
	return listed(event(name, fmt.Sprintf("is moving %d tasks:", len(moves))), entries)
}

// CannotMove is the event of tasks that break a rule where they are, with no moves that would mend it.
func CannotMove(name, why string) string {
	return bounded(event(name, "has tasks that break a rule where they are, and no moves mend it: "+why+"."))
}
