package nodegroup

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
)

// turn reports whether nodes of the upgrade domain whose turn it is may be taken (N7). Before a domain begins, the
// others are to be able to hold its load; after it, a set time is waited, and nothing may be unhealthy that was not before.
func (w *work) turn() bool {
	if w.Domain != "" && !w.finished() {
		return true
	}
	if w.Domain != "" {
		if w.DomainDone.IsZero() {
			w.DomainDone = w.now
		}
		if !w.over(w.DomainDone, w.Waits.Domain) {
			return false
		}
		if len(w.sickened()) > 0 {
			if w.over(w.DomainDone, w.Waits.Domain+w.Waits.Health) {
				w.fail(w.healthError())
			}
			return false
		}
	}
	return w.begin(w.nextDomain())
}

// finished reports whether all nodes of the domain have been replaced.
func (w *work) finished() bool {
	for _, i := range w.old() {
		if i.UpgradeDomain() == w.Domain {
			return false
		}
	}
	return len(w.Work) == 0 && w.missing() == 0
}

// nextDomain is the first that has old nodes; empty where none has.
func (w *work) nextDomain() (next string) {
	for _, i := range w.old() {
		if d := i.UpgradeDomain(); next == "" || byNumber(d, next) < 0 {
			next = d
		}
	}
	return next
}

// begin gives a domain its turn if the others can hold its load; they have as long for it as tasks have to leave a node.
func (w *work) begin(domain string) bool {
	if domain == "" {
		return true
	}
	if why := w.full(domain); why != "" && !w.Force {
		if w.Since.IsZero() {
			w.Since = w.now
		}
		if w.over(w.Since, w.Waits.Drain) {
			w.fail(w.fullError(domain, why))
		}
		return false
	}
	w.Domain, w.DomainDone, w.Since = domain, time.Time{}, time.Time{}
	w.Sick = slices.Sorted(maps.Keys(w.group.Sick))
	return true
}

// sickened are what is unhealthy, in words, and was not when the domain began.
func (w *work) sickened() (out []string) {
	for name, why := range w.group.Sick {
		if !slices.Contains(w.Sick, name) {
			out = append(out, why)
		}
	}
	slices.Sort(out)
	return out
}

// full says why the other domains cannot hold a domain's load; empty where they can.
func (w *work) full(domain string) string {
	if w.group.Room == nil {
		return ""
	}
	var leaving []string
	for _, i := range w.old() {
		if i.UpgradeDomain() == domain && i.node() != "" {
			leaving = append(leaving, i.node())
		}
	}
	return w.group.Room(leaving)
}

func (w *work) healthError() cluster.UpdateError {
	return cluster.UpdateError{Code: cluster.PodEvictionFailure, Resources: []string{w.group.Name}, Message: fmt.Sprintf(
		"Unhealthy after upgrade domain %s was updated: %s", w.Domain, list(w.sickened()))}
}

func (w *work) fullError(domain, why string) cluster.UpdateError {
	var ids []string
	for _, i := range w.old() {
		if i.UpgradeDomain() == domain {
			ids = append(ids, i.ID)
		}
	}
	return cluster.UpdateError{Code: cluster.PodEvictionFailure, Resources: ids, Message: fmt.Sprintf(
		"The other upgrade domains cannot hold the load of %s: %s", domain, why)}
}

// byNumber compares names with numbers in them as people do: ud2 comes before ud10.
func byNumber(a, b string) int {
	const digits = "0123456789"
	for a != "" && b != "" {
		i, j := strings.IndexAny(a, digits), strings.IndexAny(b, digits)
		if i < 0 || j < 0 || a[:i] != b[:j] {
			break
		}
		a, b = a[i:], b[j:]
		m, n := len(a)-len(strings.TrimLeft(a, digits)), len(b)-len(strings.TrimLeft(b, digits))
		x, y := strings.TrimLeft(a[:m], "0"), strings.TrimLeft(b[:n], "0")
		if x != y {
			return cmp.Or(cmp.Compare(len(x), len(y)), compare(x, y))
		}
		a, b = a[m:], b[n:]
	}
	return compare(a, b)
}
