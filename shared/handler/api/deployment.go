package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

// Deployments describes service deployments and service revisions, and stops service deployments.
type Deployments struct{ *Dependencies }

// ListServiceDeployments returns a page of the service deployments of the last 90 days that match,
// newest first. more reports whether there is another page. An unknown service is a
// ServiceNotFoundException.
//
// The current service deployment comes from the service's row: its own row is only as of its start.
func (a *Deployments) ListServiceDeployments(
	ctx context.Context, q operation.ListServiceDeployments,
) (out []*operation.ReleaseDetail, more bool, err error) {
	if _, err := a.findCluster(ctx, q.Cluster); err != nil {
		return nil, false, err
	}
	s, err := a.requireService(ctx, q.Cluster, q.Service)
	if err != nil {
		return nil, false, err
	}
	// It has the lowest id, so it belongs on the first page.
	if r := s.Release; r != nil && (q.After == "" || r.ID > q.After) && isQueried(q, r) {
		out = append(out, newReleaseDetail(s, r, nil))
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
			if !ok || s.Release != nil && d.ID == s.Release.ID || !isQueried(q, &d.Release) {
				continue
			}
			if len(out) == q.Limit {
				return out, true, nil
			}
			out = append(out, newReleaseDetail(s, &d.Release, d))
		}
		if len(rows) < from.Limit {
			return out, false, nil
		}
		from.From = state.KeyOf(rows[len(rows)-1]).Sort + "\x00"
	}
}

// isQueried reports whether the service deployment has one of the statuses and was created within
// the bounds, both included.
func isQueried(q operation.ListServiceDeployments, r *cluster.Release) bool {
	return (len(q.Statuses) == 0 || slices.Contains(q.Statuses, r.Status)) &&
		(q.From.IsZero() || !r.CreatedAt.Before(q.From)) && (q.To.IsZero() || !r.CreatedAt.After(q.To))
}

// DescribeServiceDeployments returns the service deployments named, and the rest as failures.
func (a *Deployments) DescribeServiceDeployments(
	ctx context.Context, refs []operation.RecordRef,
) (out []*operation.ReleaseDetail, failed []cluster.Failure, err error) {
	return describeEach(refs, func(ref operation.RecordRef) (*operation.ReleaseDetail, error) {
		s, err := a.findService(ctx, ref.Cluster, ref.Service)
		if s == nil || err != nil {
			return nil, err
		}
		row, err := a.readRelease(ctx, s, ref)
		switch {
		case err != nil:
			return nil, err
		case s.Release != nil && s.Release.ID == ref.ID:
			return newReleaseDetail(s, s.Release, row), nil
		case row == nil:
			return nil, nil
		}
		return newReleaseDetail(s, &row.Release, row), nil
	})
}

// newReleaseDetail describes a service deployment, of which row is its own row, or nil. Rows of earlier versions
// have no configuration.
func newReleaseDetail(s *cluster.Service, r *cluster.Release, row *cluster.ServiceDeployment) *operation.ReleaseDetail {
	out := &operation.ReleaseDetail{Release: *r, Service: s, Configuration: s.DeploymentConfiguration()}
	if row != nil && row.Status.HasEnded() && row.Configuration.MaxPercent > 0 {
		out.Configuration = row.Configuration
	}
	return out
}

// readRelease reads the own row of a service deployment; nil if there is none.
func (a *Deployments) readRelease(
	ctx context.Context, s *cluster.Service, ref operation.RecordRef,
) (*cluster.ServiceDeployment, error) {
	key := state.KeyOf(&cluster.ServiceDeployment{
		Head: cluster.Head{Cluster: s.Cluster}, Short: s.Short, Release: cluster.Release{ID: ref.ID},
	})
	return state.ReadRow[*cluster.ServiceDeployment](ctx, a.State, key, "service deployment "+ref.String())
}

// findRelease returns a service deployment and its service; nil if either does not exist.
func (a *Deployments) findRelease(
	ctx context.Context, ref operation.RecordRef,
) (*cluster.Service, *cluster.Release, error) {
	s, err := a.findService(ctx, ref.Cluster, ref.Service)
	if s == nil || err != nil {
		return nil, nil, err
	}
	if s.Release != nil && s.Release.ID == ref.ID {
		return s, s.Release, nil
	}
	d, err := a.readRelease(ctx, s, ref)
	if err != nil || d == nil {
		return s, nil, err
	}
	return s, &d.Release, nil
}

// DescribeServiceRevisions returns the service revisions named, and the rest as failures.
func (a *Deployments) DescribeServiceRevisions(
	ctx context.Context, refs []operation.RecordRef,
) (out []*operation.RevisionDetail, failed []cluster.Failure, err error) {
	return describeEach(refs, func(ref operation.RecordRef) (*operation.RevisionDetail, error) {
		s, err := a.findService(ctx, ref.Cluster, ref.Service)
		if s == nil || err != nil {
			return nil, err
		}
		r, err := a.findRevision(ctx, s, ref)
		if r == nil || err != nil {
			return nil, err
		}
		return &operation.RevisionDetail{Revision: *r, Service: s}, nil
	})
}

// findRevision returns a revision by its digits, from the service's row or from the history; nil if
// neither has it.
func (a *Deployments) findRevision(
	ctx context.Context, s *cluster.Service, ref operation.RecordRef,
) (*cluster.Revision, error) {
	if r := findKeptRevision(s, ref.ID); r != nil {
		return r, nil
	}
	key := state.Key{Cluster: s.Cluster, Sort: state.PrefixRevision + s.Short + "#" + ref.ID}
	r, err := state.ReadRow[*cluster.ServiceRevision](ctx, a.State, key, "service revision "+ref.String())
	if err != nil || r == nil {
		return nil, err
	}
	return &r.Revision, nil
}

// findKeptRevision returns a revision that the service's own row has: the current one, one of an
// older deployment, or the one to roll back to.
func findKeptRevision(s *cluster.Service, digits string) *cluster.Revision {
	if s.HasTaskSets() {
		return nil // a task set is no service revision
	}
	has := []*cluster.Revision{&s.Deployment.Revision}
	for n := range s.Older {
		has = append(has, &s.Older[n].Revision)
	}
	if s.Last != nil {
		has = append(has, s.Last)
	}
	if n := slices.IndexFunc(has, func(r *cluster.Revision) bool { return r.IDDigits() == digits }); n >= 0 {
		return has[n]
	}
	return nil
}

// StopServiceDeployment requests that the service's current deployment is stopped: rolled back to
// the last completed revision, or aborted where it is. Placement then does it. One that has ended
// or is being stopped the other way is a ConflictException, an unknown one a
// ServiceDeploymentNotFoundException. Repeating the request changes nothing.
func (a *Deployments) StopServiceDeployment(ctx context.Context, ref operation.RecordRef, how cluster.StopType) error {
	_, err := a.editService(ctx, ref.Cluster, ref.Service, func(s *cluster.Service) error {
		_, r, err := a.findRelease(ctx, ref)
		switch {
		case err != nil:
			return err
		case r == nil:
			return deploymentNotFound()
		case s.Release == nil || s.Release.ID != ref.ID || s.Release.Status.HasEnded():
			return cluster.Errorf(cluster.CodeConflict, "The service deployment cannot be stopped: it is %s.", r.Status)
		}
		return requestStop(s, how, a.Clock.Now())
	})
	if code := cluster.ErrorCode(err); err != nil && (code == cluster.CodeServiceNotFound ||
		code == cluster.CodeClusterNotFound) {
		return deploymentNotFound()
	}
	return err
}

// errUnchanged ends an edit that has nothing to change, so that nothing is written.
var errUnchanged = errors.New("nothing changes")

func deploymentNotFound() error {
	return cluster.Errorf(cluster.CodeDeploymentNotFound, "Service deployment not found.")
}

// requestStop notes the request in the service deployment. It cannot be rolled back if no
// deployment of the service ever completed.
func requestStop(s *cluster.Service, how cluster.StopType, now time.Time) error {
	next := *s.Release
	asked := map[cluster.StopType]cluster.ServiceDeploymentStatus{
		cluster.StopAbort: cluster.DeploymentStopRequested, cluster.StopRollback: cluster.DeploymentRollbackRequested,
	}[how]
	switch {
	case next.Stop == how || how == cluster.StopRollback && next.Status == cluster.DeploymentRollbackInProgress:
		return errUnchanged
	case next.Stop != "" || next.Status == cluster.DeploymentRollbackInProgress:
		return cluster.Errorf(cluster.CodeConflict, "The service deployment cannot be stopped by %s: it is %s.", how,
			next.Status)
	case how == cluster.StopRollback && s.Last == nil:
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"The service deployment cannot be rolled back: no deployment of the service was completed before it.")
	}
	next.Stop, next.Status, next.UpdatedAt = how, asked, now
	s.Release = &next
	return nil
}
