package scaling

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"berth/shared/cluster"
)

// HookHeartbeat is how long a lifecycle hook holds an instance at a time, as with ECS.
const HookHeartbeat = time.Hour

// HeartbeatInterval is the time after which such an instance gets a heartbeat, long before the hook
// lets it go.
const HeartbeatInterval = HookHeartbeat / 2

// renewalInterval is how often everything that a provider needs is made again, in case somebody has
// deleted it, and a policy or alarms that it does not need are deleted, in case a late call has made them.
const renewalInterval = time.Hour

// WantedAttachments returns what a provider must have at CloudWatch and Auto Scaling: two alarms of
// Berth's own or a target tracking policy, never both (C1), and the lifecycle hook of managed
// draining (C6). The group may be nil.
func WantedAttachments(
	clusterName, namespace string, p *cluster.CapacityProvider, g *cluster.AutoScalingGroup,
) cluster.Attachment {
	a := cluster.Attachment{Group: p.Group, Hook: p.Draining}
	if g != nil {
		a.ARN = g.ARN
	}
	switch {
	case !p.Scaling.Enabled:
	case p.Scaling.TargetTracking:
		a.Policy = cluster.Digest(fmt.Sprint(TrackingPolicy(clusterName, namespace, p)))
	default:
		a.Alarms = cluster.Digest(fmt.Sprint(MetricAlarms(clusterName, namespace, p)))
	}
	return a
}

// TrackingPolicy returns the target tracking policy of a provider.
func TrackingPolicy(clusterName, namespace string, p *cluster.CapacityProvider) cluster.TrackingPolicy {
	return cluster.TrackingPolicy{
		Group: p.Group, Name: cluster.ScalingPolicy(clusterName, p.Name), Namespace: namespace,
		Cluster: clusterName, Provider: p.Name, Target: float64(p.Scaling.Target), Warmup: p.Scaling.Warmup,
	}
}

// MetricAlarms returns the two alarms of a provider: above the target for 1 datapoint, and below it
// for as many as a scale-in needs.
func MetricAlarms(clusterName, namespace string, p *cluster.CapacityProvider) []cluster.MetricAlarm {
	low, high := cluster.ScalingAlarms(clusterName, p.Name)
	above := cluster.MetricAlarm{
		Name: high, Namespace: namespace, Cluster: clusterName, Provider: p.Name, Threshold: float64(p.Scaling.Target),
		Times: 1,
	}
	below := above
	below.Name, below.Below, below.Times = low, true, p.Scaling.LowDatapoints
	return []cluster.MetricAlarm{above, below}
}

// IsRenewalDue reports whether everything that the provider needs must be made again. Each provider
// has a time of its own in the interval, so that not all of an account are renewed at once.
func IsRenewalDue(clusterName, provider string, last, now time.Time) bool {
	hash := fnv.New32a()
	hash.Write([]byte(clusterName + " " + provider))
	offset := time.Duration(hash.Sum32()) * time.Millisecond % renewalInterval
	return !now.Add(offset).Truncate(renewalInterval).Equal(last.Add(offset).Truncate(renewalInterval))
}

// UnneededProvider returns the provider as one for which the cluster needs nothing any more. The
// lifecycle hook is the group's, so it stays while another cluster has the provider. The provider
// may be nil if its row is gone.
func UnneededProvider(clusterName string, p *cluster.CapacityProvider, name, group string) *cluster.CapacityProvider {
	unneeded := &cluster.CapacityProvider{Name: name, Group: group}
	if p != nil && p.Draining && p.Group == group {
		unneeded.Draining = slices.ContainsFunc(p.Clusters, func(c string) bool { return c != clusterName })
	}
	return unneeded
}

// GroupProblem says why a group cannot be the provider's, in ECS's words; empty if it can (C6, C7).
// A group that may have no instances is accepted, as by ECS: it cannot be scaled out, and decisions
// say so.
func GroupProblem(p *cluster.CapacityProvider, g *cluster.AutoScalingGroup) string {
	switch {
	case g == nil:
		return "The specified Auto Scaling group ARN is not valid. Ensure that the ARN references an existing Auto " +
			"Scaling group and try again."
	case p.Protection && !g.Protects:
		return "The managed termination protection setting for the capacity provider is invalid. To enable managed " +
			"termination protection " +
			"for a capacity provider, the Auto Scaling group must have instance protection from scale in enabled."
	}
	return WeightsProblem(p, g)
}

// WeightsProblem says why managed scaling cannot size the group, whose instances count by weights;
// empty if it can (C7). Weights may be given to a group at any time.
func WeightsProblem(p *cluster.CapacityProvider, g *cluster.AutoScalingGroup) string {
	if !p.Scaling.Enabled || !g.Weighted {
		return ""
	}
	return fmt.Sprintf("The Auto Scaling group %s has instance weights, which managed scaling does not support.",
		g.Name)
}

// Heartbeats returns when the lifecycle hooks of instances that wait to be terminated last got a
// heartbeat, or were first seen, by EC2 id; nil if there are none. due are those that need one now, the one
// that has waited longest first.
func Heartbeats(
	p *cluster.CapacityProvider, g *cluster.AutoScalingGroup, old map[string]time.Time, now time.Time,
) (beats map[string]time.Time, due []string) {
	for _, i := range g.Instances {
		if !p.Draining || i.Lifecycle != "Terminating:Wait" {
			continue
		}
		at, known := old[i.ID]
		if !known {
			at = now
		}
		if known && cluster.RemainingWait(at.Add(HeartbeatInterval), now, HeartbeatInterval) == 0 {
			due = append(due, i.ID)
		}
		if beats == nil {
			beats = map[string]time.Time{}
		}
		beats[i.ID] = at
	}
	slices.SortFunc(due, func(a, b string) int { return cmp.Or(old[a].Compare(old[b]), cmp.Compare(a, b)) })
	return beats, due
}

// NewEvents returns the events that were not emitted yet, and the keys that have been emitted after
// that. An event without a key is always new. A key that no longer holds may be emitted again.
func NewEvents(emitted []string, events []Event) (keys []string, unemitted []Event) {
	for _, e := range events {
		if e.Key != "" {
			keys = append(keys, e.Key)
		}
		if e.Key == "" || !slices.Contains(emitted, e.Key) {
			unemitted = append(unemitted, e)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), unemitted
}
