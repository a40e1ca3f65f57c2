package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"berth/shared/cluster"
	"berth/shared/decide"
	"berth/shared/operation"
	"berth/shared/state"
)

// deploy makes a revision the service's PRIMARY deployment: the one before is ACTIVE until its tasks have gone (S8). The
// revision has what its tasks are made of; its id, its time and the constraints that hold for it are set here. left is
// what the deployment before is still to have.
func deploy(s *cluster.Service, r cluster.Revision, left int, now time.Time) error {
	old := s.Deployment
	old.Desired = left
	if old.Completed() {
		s.Last = &old.Revision
	}
	older := s.Older
	if old.Desired > 0 || old.Running+old.Pending > 0 {
		older = append([]cluster.Deployment{old}, older...)
	}
	if len(older) > cluster.MaxOlder {
		return cluster.Errorf(cluster.CodeClient, "Service %s has tasks of %d deployments, at most %d are allowed at once. Wait until some have gone.",
			s.Name, len(older), cluster.MaxOlder)
	}
	begin(s, r, now)
	s.Older = slices.Clone(older)
	for _, d := range slices.Concat([]cluster.Deployment{old}, s.Older) {
		s.Release.Sources = append(s.Release.Sources, d.ID)
	}
	s.Release.Sources = slices.Compact(s.Release.Sources)
	return nil
}

// begin is [deploy] where nothing was before.
func begin(s *cluster.Service, r cluster.Revision, now time.Time) {
	r.ID, r.CreatedAt, r.Providers, r.Constraints = freshID(s, now), now, s.Providers, nil
	if s.Strategy == cluster.Daemon {
		r.Constraints = slices.Clone(s.Rules.Constraints)
	}
	s.Deployment = cluster.Deployment{
		Revision: r, UpdatedAt: now, State: cluster.RolloutInProgress, Reason: "ECS deployment " + r.ID + " in progress.",
	}
	s.Release = &cluster.Release{
		ID: releaseID(s, r.ID, now), Status: cluster.DeploymentPending, CreatedAt: now, UpdatedAt: now, Target: r.ID,
		Requested: s.Desired, Breaker: s.Breaker.Enable,
	}
	if s.Alarms.Enable {
		s.Release.Alarms = slices.Clone(s.Alarms.Names)
	}
	s.Steady = false
}

// owed is how many tasks the PRIMARY deployment is owed once it is none: a completed one all, another what it has.
func owed(s *cluster.Service) int {
	if s.Deployment.Completed() {
		return s.Desired
	}
	has := s.Deployment.Running + s.Deployment.Pending
	if len(s.Older) == 0 {
		has = max(has, s.Running+s.Pending)
	}
	return min(s.Desired, has)
}

// freshID is a deployment id that the service has not: two may be made in the same instant.
func freshID(s *cluster.Service, now time.Time) string {
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

// releaseID is the id of the service deployment of a deployment. Ids of later ones come first, so that a page of the
// history is one range.
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

// stopped is a service deployment that something else came in the way of.
func stopped(r *cluster.Release, now time.Time, why string) *cluster.Release {
	if r == nil || r.Status.Ended() {
		return r
	}
	next := *r
	next.Status, next.Reason, next.Stop = cluster.DeploymentStopped, why, ""
	next.StoppedAt, next.FinishedAt, next.UpdatedAt = now, now, now
	return &next
}

// history are the rows of service deployments and revisions that go with a change of a service. What is current is in the
// service's own row; what is no more gets its last word here.
func (a *Handler) history(old, next *cluster.Service) (writes []state.Write) {
	revision := func(s *cluster.Service, r cluster.Revision) {
		writes = append(writes, state.Write{Any: true, Put: &cluster.ServiceRevision{
			Head: cluster.Head{Cluster: s.Cluster, Expires: a.expiry(decide.KeepHistory)}, Service: s.Name, Short: s.Short, Revision: r,
		}})
	}
	release := func(s *cluster.Service, r *cluster.Release) {
		if r != nil {
			writes = append(writes, state.Write{Any: true, Put: &cluster.ServiceDeployment{
				Head: cluster.Head{Cluster: s.Cluster, Expires: a.expiry(decide.KeepHistory)}, Service: s.Name, Short: s.Short, Release: *r,
			}})
		}
	}
	same := old != nil && old.Short == next.Short
	switch {
	case !same:
		revision(next, next.Deployment.Revision)
		release(next, next.Release)
	case next.Status != old.Status:
		release(next, next.Release)
	case next.Deployment.ID != old.Deployment.ID:
		revision(old, old.Deployment.Revision)
		release(old, stopped(old.Release, next.Deployment.CreatedAt, "A new service deployment was started."))
		revision(next, next.Deployment.Revision)
		release(next, next.Release)
	}
	return writes
}

// revised is what the tasks of a service are to be made of after the change; differs reports whether that is something
// else than now. The other members of UpdateService make no new deployment.
func revised(s *cluster.Service, c operation.UpdateService, definition string) (r cluster.Revision, differs bool) {
	now := s.Deployment.Revision
	r = cluster.Revision{
		TaskDefinition: cmp.Or(definition, now.TaskDefinition), Network: now.Network, LoadBalancers: now.LoadBalancers, Registries: now.Registries,
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

// ListServiceDeployments gives the service deployments of the last 90 days that match, the newest first; more reports
// whether there are others after them. A service that is not there gives ServiceNotFoundException.
func (a *Handler) ListServiceDeployments(ctx context.Context, q operation.ListServiceDeployments) (out []*operation.ReleaseDetail, more bool, err error) {
	if _, err := a.known(ctx, q.Cluster); err != nil {
		return nil, false, err
	}
	s, err := a.service(ctx, q.Cluster, q.Service)
	if err != nil {
		return nil, false, err
	}
	if s == nil {
		return nil, false, cluster.Errorf(cluster.CodeServiceNotFound, "Service not found.")
	}
	// The current one's row is as it was at its start.
	if r := s.Release; r != nil && (q.After == "" || r.ID > q.After) && queried(q, r) {
		out = append(out, &operation.ReleaseDetail{Release: *r, Service: s})
	}
	from := state.Prefix(q.Cluster, state.PrefixDeployment+s.Short+"#")
	if q.After != "" {
		from.From += q.After + "\x00"
	}
	for from.Limit = maxRows; ; {
		rows, err := a.State.List(ctx, from)
		if err != nil {
			return nil, false, fmt.Errorf("listing the deployments of service %s: %w", s.Name, err)
		}
		for _, row := range rows {
			d, ok := row.(*cluster.ServiceDeployment)
			if !ok || s.Release != nil && d.ID == s.Release.ID || !queried(q, &d.Release) {
				continue
			}
			if len(out) == q.Limit {
				return out, true, nil
			}
			out = append(out, &operation.ReleaseDetail{Release: d.Release, Service: s})
		}
		if len(rows) < from.Limit {
			return out, false, nil
		}
		from.From = state.KeyOf(rows[len(rows)-1]).Sort + "\x00"
	}
}

func queried(q operation.ListServiceDeployments, r *cluster.Release) bool {
	return (len(q.Statuses) == 0 || slices.Contains(q.Statuses, r.Status)) &&
		(q.From.IsZero() || !r.CreatedAt.Before(q.From)) && (q.To.IsZero() || !r.CreatedAt.After(q.To))
}

// absent is the failure of something that is not there.
func absent(arn string) cluster.Failure { return cluster.Failure{ARN: arn, Reason: "MISSING"} }

// ServiceDeployments gives the service deployments named; those that are not there as failures.
func (a *Handler) ServiceDeployments(ctx context.Context, refs []operation.RecordRef) (out []*operation.ReleaseDetail, failed []cluster.Failure, err error) {
	for _, ref := range refs {
		s, r, err := a.release(ctx, ref)
		if err != nil {
			return nil, nil, err
		}
		if r == nil {
			failed = append(failed, absent(ref.String()))
			continue
		}
		out = append(out, &operation.ReleaseDetail{Release: *r, Service: s})
	}
	return out, failed, nil
}

// release is a service deployment; nil where there is none.
func (a *Handler) release(ctx context.Context, ref operation.RecordRef) (*cluster.Service, *cluster.Release, error) {
	s, err := a.service(ctx, ref.Cluster, ref.Service)
	if s == nil || err != nil {
		return nil, nil, err
	}
	if s.Release != nil && s.Release.ID == ref.ID {
		return s, s.Release, nil
	}
	row, err := a.State.Get(ctx, state.KeyOf((&cluster.ServiceDeployment{
		Head: cluster.Head{Cluster: s.Cluster}, Short: s.Short, Release: cluster.Release{ID: ref.ID},
	})))
	if err != nil {
		return nil, nil, fmt.Errorf("reading service deployment %s: %w", ref, err)
	}
	if d, ok := row.(*cluster.ServiceDeployment); ok && d != nil {
		return s, &d.Release, nil
	}
	return s, nil, nil
}

// ServiceRevisions gives the service revisions named; those that are not there as failures.
func (a *Handler) ServiceRevisions(ctx context.Context, refs []operation.RecordRef) (out []*operation.RevisionDetail, failed []cluster.Failure, err error) {
	for _, ref := range refs {
		s, err := a.service(ctx, ref.Cluster, ref.Service)
		if err != nil {
			return nil, nil, err
		}
		r, err := a.revision(ctx, s, ref)
		if err != nil {
			return nil, nil, err
		}
		if r == nil {
			failed = append(failed, absent(ref.String()))
			continue
		}
		out = append(out, &operation.RevisionDetail{Revision: *r, Service: s})
	}
	return out, failed, nil
}

// revision is a service revision, by its digits; nil where there is none.
func (a *Handler) revision(ctx context.Context, s *cluster.Service, ref operation.RecordRef) (*cluster.Revision, error) {
	if s == nil {
		return nil, nil
	}
	if r := kept(s, ref.ID); r != nil {
		return r, nil
	}
	row, err := a.State.Get(ctx, state.Key{Cluster: s.Cluster, Sort: state.PrefixRevision + s.Short + "#" + ref.ID})
	if err != nil {
		return nil, fmt.Errorf("reading service revision %s: %w", ref, err)
	}
	if r, ok := row.(*cluster.ServiceRevision); ok && r != nil {
		return &r.Revision, nil
	}
	return nil, nil
}

// kept is a revision that the service's own row still has.
func kept(s *cluster.Service, digits string) *cluster.Revision {
	has := []*cluster.Revision{&s.Deployment.Revision}
	for n := range s.Older {
		has = append(has, &s.Older[n].Revision)
	}
	if s.Last != nil {
		has = append(has, s.Last)
	}
	if n := slices.IndexFunc(has, func(r *cluster.Revision) bool { return r.Digits() == digits }); n >= 0 {
		return has[n]
	}
	return nil
}

// StopServiceDeployment wants the current service deployment of a service stopped: rolled back to the last completed
// revision, or left where it is. One that has ended, or is already being stopped another way, gives ConflictException, one
// that is not there ServiceDeploymentNotFoundException.
func (a *Handler) StopServiceDeployment(ctx context.Context, ref operation.RecordRef, how cluster.StopType) error {
	_, err := a.edit(ctx, ref.Cluster, ref.Service, func(s *cluster.Service) error {
		_, r, err := a.release(ctx, ref)
		switch {
		case err != nil:
			return err
		case r == nil:
			return deploymentNotFound()
		case s.Release == nil || s.Release.ID != ref.ID || s.Release.Status.Ended():
			return cluster.Errorf(cluster.CodeConflict, "The service deployment cannot be stopped: it is %s.", r.Status)
		}
		return stopRelease(s, how, a.Clock.Now())
	})
	if code := cluster.ErrorCode(err); err != nil && (code == cluster.CodeServiceNotFound || code == cluster.CodeClusterNotFound) {
		return deploymentNotFound()
	}
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// errUnchanged ends an edit that has nothing to change.
var errUnchanged = errors.New("nothing changes")

func deploymentNotFound() error {
	return cluster.Errorf(cluster.CodeDeploymentNotFound, "Service deployment not found.")
}

func stopRelease(s *cluster.Service, how cluster.StopType, now time.Time) error {
	next := *s.Release
	asked := map[cluster.StopType]cluster.ServiceDeploymentStatus{
		cluster.StopAbort: cluster.DeploymentStopRequested, cluster.StopRollback: cluster.DeploymentRollbackRequested,
	}[how]
	switch {
	case next.Stop == how || how == cluster.StopRollback && next.Status == cluster.DeploymentRollbackInProgress:
		return errUnchanged
	case next.Stop != "" || next.Status == cluster.DeploymentRollbackInProgress:
		return cluster.Errorf(cluster.CodeConflict, "The service deployment cannot be stopped by %s: it is %s.", how, next.Status)
	case how == cluster.StopRollback && s.Last == nil:
		return cluster.Errorf(cluster.CodeInvalidParameter, "The service deployment cannot be rolled back: no deployment of the service was completed before it.")
	}
	next.Stop, next.Status, next.UpdatedAt = how, asked, now
	s.Release = &next
	return nil
}
