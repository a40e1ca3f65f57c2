package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Diagnosis says why tasks found no instance: how many instances were evaluated, how many were
// feasible, and for each filter how many it rejected, with what was needed and the most that any of
// them had.
type Diagnosis struct {
	Evaluated int `json:"e"`
	Feasible  int `json:"f"`
	Unplaced  int `json:"u,omitempty"` // tasks left without an instance
	// Least is the smallest Unplaced of a service since [ServiceStatus.BlockedSince].
	Least    int         `json:"l,omitempty"`
	Rejected []Rejection `json:"r,omitempty"`
	// Closest is the instance that came closest: it failed the fewest filters, and the latest ones.
	// ECS's message names it.
	Closest string `json:"c,omitempty"`
	// ClosestFilter is the filter that rejected it.
	ClosestFilter Filter `json:"cf,omitempty"`
	// Refusal is why ECS refused a task on that instance, if ClosestFilter is [FilterRefused].
	Refusal string `json:"rr,omitempty"`
	// Empty is the capacity provider that the tasks use, if it has no instance.
	Empty string `json:"ep,omitempty"`
	// Unknown says which names in the tasks' constraints no instance has, and the nearest ones that
	// exist.
	Unknown string `json:"un,omitempty"`
}

// Filter names a reason why an instance cannot run a task. Users read its text.
type Filter string

// The filters, in the order in which they are tried. A rejected instance counts for the first that
// rejects it.
const (
	FilterStatus        Filter = "not active"
	FilterAgent         Filter = "agent disconnected"
	FilterUnschedulable Filter = "unschedulable"
	FilterTaint         Filter = "taint not tolerated"
	FilterRefused       Filter = "refused by ECS a while ago"
	FilterAttribute     Filter = "missing attribute"
	FilterConstraint    Filter = "constraint not met"
	FilterAffinity      Filter = "not beside the service of its affinity"
	FilterOccupied      Filter = "already has one" // DAEMON, distinctInstance, domain policies
	FilterFaultDomain   Filter = "fault domain full"
	FilterUpgrade       Filter = "upgrade domain full"
	FilterPort          Filter = "port in use"
	FilterCPU           Filter = "insufficient CPU"
	FilterMemory        Filter = "insufficient memory"
	FilterGPU           Filter = "insufficient GPU"
	FilterENI           Filter = "insufficient network interfaces"
	FilterMetric        Filter = "insufficient metric capacity"
	// The limits of the service's application.
	FilterApplicationNodes Filter = "application on its maximum number of nodes"
	FilterApplicationNode  Filter = "insufficient application capacity on the node"
	FilterApplicationTotal Filter = "insufficient application capacity in all"
)

// Rejection is how many instances one filter rejected. Need and Best are in the filter's unit (CPU
// units, MiB, GPUs). Detail names the status, the attribute or the port.
type Rejection struct {
	Filter Filter  `json:"f"`
	Count  int     `json:"n"`
	Need   float64 `json:"w,omitempty"`
	Best   float64 `json:"b,omitempty"`
	Detail string  `json:"d,omitempty"`
}

// String returns one line, the largest rejection first: "0/12: 5 insufficient memory (needs 1024
// MiB, best free 812), 3 not active (DRAINING)".
func (d *Diagnosis) String() string {
	parts := make([]string, 0, len(d.Rejected))
	for _, r := range d.sortedRejections() {
		parts = append(parts, r.String())
	}
	head := fmt.Sprintf("%d/%d", d.Feasible, d.Evaluated)
	if len(parts) == 0 {
		return head
	}
	if d.Unknown != "" {
		parts[len(parts)-1] += "; " + d.Unknown
	}
	return head + ": " + strings.Join(parts, ", ")
}

func (d *Diagnosis) sortedRejections() []*Rejection {
	out := make([]*Rejection, len(d.Rejected))
	for i := range out {
		out[i] = &d.Rejected[i]
	}
	slices.SortFunc(out, func(a, b *Rejection) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Filter, b.Filter), cmp.Compare(a.Detail, b.Detail))
	})
	return out
}

// String returns the rejection in words, with the numbers that matter.
func (r Rejection) String() string {
	filter := string(r.Filter)
	if r.Filter == FilterOccupied && r.Count != 1 {
		filter = "already have one"
	}
	text := fmt.Sprintf("%d %s", r.Count, filter)
	metric, unit := "", ""
	switch r.Filter {
	case FilterCPU:
		unit = " units"
	case FilterMemory:
		unit = " MiB"
	case FilterMetric, FilterApplicationNode, FilterApplicationTotal:
		metric = r.Detail + ": "
	case FilterGPU, FilterENI:
	default:
		if r.Detail != "" {
			text += " (" + r.Detail + ")"
		}
		return text
	}
	return fmt.Sprintf("%s (%sneeds %s%s, best free %s)", text, metric, formatNumber(r.Need), unit,
		formatNumber(r.Best))
}

// formatNumber formats large numbers in full: a million MiB is not 1e+06.
func formatNumber(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// What RunTask's failures say if there is no instance at all, in ECS's words.
const (
	NoInstances   = "No Container Instances were found in your cluster."
	EmptyProvider = "EMPTY CAPACITY PROVIDER"
)

// StopsWouldHelp reports whether some instance might take the task if tasks on it stopped.
func (d *Diagnosis) StopsWouldHelp() bool {
	return slices.ContainsFunc(d.Rejected, func(r Rejection) bool {
		return slices.Contains([]Filter{FilterOccupied, FilterFaultDomain, FilterUpgrade, FilterPort, FilterCPU,
			FilterMemory, FilterGPU, FilterENI, FilterMetric, FilterApplicationNodes, FilterApplicationNode,
			FilterApplicationTotal}, r.Filter)
	})
}

// FailureReason returns the reason in RunTask's failures and in the event
// SERVICE_TASK_PLACEMENT_FAILURE: that of the closest instance, if there is one. RESOURCE:OTHER
// stands for filters that ECS does not have.
func (d *Diagnosis) FailureReason() string {
	switch {
	case d.Empty != "":
		return EmptyProvider
	case d.Evaluated == 0:
		return NoInstances
	case d.ClosestFilter == FilterRefused && d.Refusal != "":
		return d.Refusal
	}
	return cmp.Or(failureReasons[d.ClosestFilter], "RESOURCE:OTHER")
}

// failureReasons are the reasons of ECS for the filters that it has.
var failureReasons = map[Filter]string{
	FilterStatus:     "INACTIVE",
	FilterAgent:      "AGENT",
	FilterAttribute:  "ATTRIBUTE",
	FilterTaint:      "ATTRIBUTE", // ECS has no taints
	FilterConstraint: "MemberOf placement constraint unsatisfied.",
	FilterOccupied:   "DistinctInstance placement constraint unsatisfied.",
	FilterPort:       "RESOURCE:PORTS",
	FilterCPU:        "RESOURCE:CPU",
	FilterMemory:     "RESOURCE:MEMORY",
	FilterGPU:        "RESOURCE:GPU",
	FilterENI:        "RESOURCE:ENI",
}
