package api

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// startDeployment makes a revision the service's PRIMARY deployment: the one before is ACTIVE until
// its tasks have gone (S8). The revision has what its tasks are made of; its id, its time and the
// constraints that hold for it are set here. left is what the deployment before is still to have.
func startDeployment(s *cluster.Service, r cluster.Revision, left int, now time.Time) error {
	old := s.Deployment
	old.Desired = left
	if old.IsCompleted() {
		s.Last = &old.Revision
	}
	older := s.Older
	if old.Desired > 0 || old.Running+old.Pending > 0 {
		older = append([]cluster.Deployment{old}, older...)
	}
	if len(older) > cluster.MaxOlder {
		return cluster.Errorf(cluster.CodeClient,
			"Service %s has tasks of %d deployments, at most %d are allowed at once. Wait until an older deployment ends.",
			s.Name, len(older), cluster.MaxOlder)
	}
	setDeployment(s, r, now)
	s.Older = slices.Clone(older)
	for _, d := range slices.Concat([]cluster.Deployment{old}, s.Older) {
		s.Release.Sources = append(s.Release.Sources, d.ID)
	}
	s.Release.Sources = slices.Compact(s.Release.Sources)
	return nil
}

// setDeployment is [deploy] where nothing was before.
func setDeployment(s *cluster.Service, r cluster.Revision, now time.Time) {
	r.ID, r.CreatedAt, r.Providers, r.Constraints = newDeploymentID(s, now), now, s.Providers, nil
	if s.Strategy == cluster.Daemon {
		r.Constraints = slices.Clone(s.Rules.Constraints)
	}
	s.Deployment = cluster.Deployment{
		Revision: r, UpdatedAt: now, State: cluster.RolloutInProgress,
		Reason: "ECS deployment " + r.ID + " in progress.",
	}
	s.Release = &cluster.Release{
		ID: releaseID(s, r.ID, now), Status: cluster.DeploymentPending, CreatedAt: now, UpdatedAt: now,
		Target: r.ID, Breaker: s.Breaker.Enable,
		ReleaseResult: cluster.ReleaseResult{Requested: s.Desired},
	}
	if s.Alarms.Enable {
		s.Release.Alarms = slices.Clone(s.Alarms.Names)
	}
	s.Steady = false
}

// desiredOfPrevious is how many tasks the PRIMARY deployment is owed once it is none: a completed
// one all, another what it has.
func desiredOfPrevious(s *cluster.Service) int {
	if s.Deployment.IsCompleted() {
		return s.Desired
	}
	has := s.Deployment.Running + s.Deployment.Pending
	if len(s.Older) == 0 {
		has = max(has, s.Running+s.Pending)
	}
	return min(s.Desired, has)
}

// newDeploymentID is a deployment id that the service has not: two may be made in the same instant.
func newDeploymentID(s *cluster.Service, now time.Time) string {
	taken := []string{s.Deployment.ID}
	for _, d := range s.Older {
		taken = append(taken, d.ID)
	}
	if s.Last != nil {
		taken = append(taken, s.Last.ID)
	}
	id := cluster.DeploymentID(s.Short, now)
	for slices.Contains(taken, id) {
		now = now.Add(time.Nanosecond)
		id = cluster.DeploymentID(s.Short, now)
	}
	return id
}

// releaseID is the id of the service deployment of a deployment. Ids of later ones come first, so
// that a page of the history is one range.
func releaseID(s *cluster.Service, deployment string, now time.Time) string {
	const last, digits = 1<<52 - 1, 13
	n := last - now.UnixMicro()
	if s.Release != nil && len(s.Release.ID) > digits {
		before, err := strconv.ParseInt(s.Release.ID[:digits], 16, 64)
		if err == nil {
			n = min(n, before-1)
		}
	}
	return fmt.Sprintf("%0*x%.8s", digits, n, cluster.Digest("release", s.Short, deployment))
}

// stoppedRelease is a service deployment that something else came in the way of.
func stoppedRelease(r *cluster.Release, now time.Time, why string) *cluster.Release {
	if r == nil || r.Status.HasEnded() {
		return r
	}
	next := *r
	next.Status, next.Reason, next.Stop = cluster.DeploymentStopped, why, ""
	next.StoppedAt, next.FinishedAt, next.UpdatedAt = now, now, now
	return &next
}

// changedRevision is what the tasks of a service are to be made of after the change; differs
// reports whether that is something else than now. The other members of UpdateService make no new
// deployment.
func changedRevision(
	s *cluster.Service, c operation.UpdateService, definition string,
) (r cluster.Revision, differs bool) {
	now := s.Deployment.Revision
	r = cluster.Revision{
		TaskDefinition: cmp.Or(definition, now.TaskDefinition), Network: now.Network, LoadBalancers: now.LoadBalancers,
		Registries: now.Registries,
	}
	if c.Network != nil {
		r.Network = c.Network
		if len(c.Network.Subnets) == 0 {
			r.Network = nil
		}
	}
	if c.LoadBalancers != nil {
		r.LoadBalancers = *c.LoadBalancers
	}
	if c.Registries != nil {
		r.Registries = *c.Registries
	}
	same := r.TaskDefinition == now.TaskDefinition && r.Network.Equal(now.Network) &&
		slices.Equal(r.LoadBalancers, now.LoadBalancers) && slices.Equal(r.Registries, now.Registries)
	return r, !same
}
