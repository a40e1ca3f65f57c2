package quota

import (
	"cmp"
	"slices"
	"time"
)

// A Demand is how many calls one row of the outbox wants.
type Demand struct {
	Owner string // the service, or the cluster's standalone tasks
	Calls int
	Since time.Time
	// Deadline is until when a caller waits for it; zero if none does.
	Deadline time.Time
}

// Divide divides calls among demands and returns how many each one gets, in their order. Owners get
// one call each in rotation: first those with a deadline, the earliest first, then those that have
// waited longest. An owner's calls go to its own demands in the same order.
//
// Where there are more owners than calls, each round begins at another owner. rounds counts them.
func Divide(demands []Demand, calls int, rounds int64) []int {
	gets := make([]int, len(demands))
	order := make([]int, 0, len(demands))
	for i, d := range demands {
		if d.Calls > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return compareDemands(&demands[a], &demands[b]) })
	queues := map[string][]int{} // the demands of each owner that are not satisfied
	var owners []string
	urgent := 0
	for _, i := range order {
		owner := demands[i].Owner
		if queues[owner] == nil {
			owners = append(owners, owner)
			if !demands[i].Deadline.IsZero() {
				urgent++
			}
		}
		queues[owner] = append(queues[owner], i)
	}
	if patient := owners[urgent:]; len(patient) > max(0, calls-urgent) {
		rotate(patient, rounds*int64(max(1, calls-urgent)))
	}
	for calls > 0 && len(owners) > 0 {
		owners = slices.DeleteFunc(owners, func(owner string) bool {
			if calls == 0 {
				return false
			}
			calls--
			i := queues[owner][0]
			if gets[i]++; gets[i] == demands[i].Calls {
				queues[owner] = queues[owner][1:]
			}
			return len(queues[owner]) == 0
		})
	}
	return gets
}

// rotate moves the first n owners to the end.
func rotate(owners []string, n int64) {
	at := int(n % int64(len(owners)))
	copy(owners, slices.Concat(owners[at:], owners[:at]))
}

// compareDemands puts demands with a deadline first, by it, and then those that have waited longer.
func compareDemands(a, b *Demand) int {
	if a.Deadline.IsZero() != b.Deadline.IsZero() {
		if a.Deadline.IsZero() {
			return 1
		}
		return -1
	}
	return cmp.Or(a.Deadline.Compare(b.Deadline), a.Since.Compare(b.Since))
}
