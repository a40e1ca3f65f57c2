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

// startDeployment makes revision r the service's PRIMARY deployment. The one before becomes ACTIVE
// until its tasks have gone (S8), with a desired count of left. r has what tasks are made of; its
// id, its time and the constraints that hold for it are set here.
//
// If the deployment before has completed, it is also remembered as the one to roll back to.
func startDeployment(s *cluster.Service, r cluster.Revision, left int, now time.Time) error {
	old := s.Deployment
	old.Desired = left
	if old.IsCompleted() {
		s.Last = &old.Revision
	}
	older := s.Older
	// A deployment without tasks leaves nothing to replace.
	if old.Desired > 0 || old.Running+old.Pending > 0 {
		older = append([]cluster.Deployment{old}, older...)
	}
	if len(older) > cluster.MaxOlder {
		return cluster.Errorf(cluster.CodeClient,
			"Service %s has tasks of %d deployments, at most %d are allowed at once. Wait until an older deployment "+
				"ends.",
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

// setDeployment gives the service a PRIMARY deployment of revision r and the service deployment
// that records its rollout.
//
// A DAEMON service's revision keeps the constraints of its time: changed constraints govern
// reservations at once, but running tasks only with the next deployment (S4).
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
		ID: releaseID(s, r.ID, now), Status: cluster.DeploymentPending, CreatedAt: now, UpdatedAt: now, Target: r.ID,
		Breaker: s.Breaker.Enable, ReleaseResult: cluster.ReleaseResult{Requested: s.Desired},
	}
	if s.Alarms.Enable {
		s.Release.Alarms = slices.Clone(s.Alarms.Names)
	}
	s.Steady = false
}

// desiredOfPrevious returns how many tasks the PRIMARY deployment is still to have once a newer one
// replaces it. A completed deployment keeps the desired count, so that the rollout replaces its
// tasks step by step. One that never completed keeps what it has: it gets no further tasks.
func desiredOfPrevious(s *cluster.Service) int {
	if s.Deployment.IsCompleted() {
		return s.Desired
	}
	has := s.Deployment.Running + s.Deployment.Pending
	// Counts by deployment lag behind until placement has counted. Without older deployments all
	// tasks are this one's.
	if len(s.Older) == 0 {
		has = max(has, s.Running+s.Pending)
	}
	return min(s.Desired, has)
}

// newDeploymentID returns a deployment id that the service does not have yet. Ids derive from the
// time, and two deployments may be created in the same instant: then a nanosecond is added.
func newDeploymentID(s *cluster.Service, now time.Time) string {
	taken := []string{s.Deployment.ID}
	for _, d := range s.Older {
		taken = append(taken, d.ID)
	}
	if s.Last != nil {
		taken = append(taken, s.Last.ID)
	}
	id := cluster.DeploymentID(s.Short, now)
	// Ids of service revisions live as long as the history, which a second deployment must not
	// overwrite.
	for slices.Contains(taken, id) {
		now = now.Add(time.Nanosecond)
		id = cluster.DeploymentID(s.Short, now)
	}
	return id
}

// releaseID returns the id of a service deployment: 13 hex digits that fall with time, and a
// digest. So ids sort newest first, and a page of the history is one range of keys. The digits are
// always below those of the previous one, even if the clock has gone back.
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

// stoppedRelease returns the service deployment as STOPPED for the reason why. One that has ended
// is returned as it is.
func stoppedRelease(r *cluster.Release, now time.Time, why string) *cluster.Release {
	if r == nil || r.Status.HasEnded() {
		return r
	}
	next := *r
	next.Status, next.Reason, next.Stop = cluster.DeploymentStopped, why, ""
	next.StoppedAt, next.FinishedAt, next.UpdatedAt = now, now, now
	return &next
}

// changedRevision returns what the service's tasks are made of after the change. differs reports
// whether that differs from now, so that a new deployment is needed. UpdateService's other members
// need none.
//
// A network without subnets stands for none: UpdateService cannot express that with nil, which
// keeps the network.
func changedRevision(
	s *cluster.Service, c operation.UpdateService, definition string,
) (r cluster.Revision, differs bool) {
	now := s.Deployment.Revision
	r = cluster.Revision{
		TaskDefinition: cmp.Or(definition, now.TaskDefinition), Network: now.Network, LoadBalancers: now.LoadBalancers,
		Registries: now.Registries, Volumes: now.Volumes,
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
	if c.Volumes != nil {
		r.Volumes = *c.Volumes
	}
	same := r.TaskDefinition == now.TaskDefinition && r.Network.Equal(now.Network) &&
		slices.Equal(r.LoadBalancers, now.LoadBalancers) && slices.Equal(r.Registries, now.Registries) &&
		cluster.EqualVolumes(r.Volumes, now.Volumes)
	return r, !same
}
