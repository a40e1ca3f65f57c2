package wire_test

import (
	"context"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
)

func (s *scheduler) ListServiceDeployments(_ context.Context, q operation.ListServiceDeployments) (found []*operation.ReleaseDetail, more bool, err error) {
	s.lastList = q
	if _, err := s.service(q.Cluster, q.Service); err != nil {
		return nil, false, err
	}
	for _, d := range s.releases {
		if d.ID <= q.After || len(q.Statuses) > 0 && !slices.Contains(q.Statuses, d.Status) {
			continue
		}
		if len(found) == q.Limit {
			return found, true, nil
		}
		found = append(found, d)
	}
	return found, false, nil
}

func (s *scheduler) DescribeServiceDeployments(_ context.Context, refs []operation.RecordRef) (found []*operation.ReleaseDetail, failed []cluster.Failure, err error) {
	for _, ref := range refs {
		n := slices.IndexFunc(s.releases, func(d *operation.ReleaseDetail) bool { return d.ID == ref.ID && d.Service.Name == ref.Service })
		if n < 0 {
			failed = append(failed, cluster.Failure{ARN: ref.String(), Reason: "MISSING"})
			continue
		}
		found = append(found, s.releases[n])
	}
	return found, failed, nil
}

func (s *scheduler) DescribeServiceRevisions(_ context.Context, refs []operation.RecordRef) (found []*operation.RevisionDetail, failed []cluster.Failure, err error) {
	for _, ref := range refs {
		n := slices.IndexFunc(s.revisions, func(d *operation.RevisionDetail) bool { return d.IDDigits() == ref.ID })
		if n < 0 {
			failed = append(failed, cluster.Failure{ARN: ref.String(), Reason: "MISSING"})
			continue
		}
		found = append(found, s.revisions[n])
	}
	return found, failed, nil
}

func (s *scheduler) StopServiceDeployment(_ context.Context, ref operation.RecordRef, how cluster.StopType) error {
	if _, failed, _ := s.DescribeServiceDeployments(context.Background(), []operation.RecordRef{ref}); len(failed) > 0 {
		return cluster.Errorf(cluster.CodeDeploymentNotFound, "Service deployment not found.")
	}
	s.stopped = append(s.stopped, ref.String()+" "+string(how))
	return nil
}

func (s *scheduler) ServiceThrottle(_ context.Context, clusterName, name string) (*cluster.Service, *cluster.Throttle, error) {
	d, err := s.service(clusterName, name)
	if err != nil {
		return nil, nil, err
	}
	return d.Service, s.throttle, nil
}

func (s *scheduler) ProtectTasks(_ context.Context, clusterName string, ids []string, d time.Duration) (done []operation.ProtectedTask, failed []cluster.Failure, err error) {
	if s.protected == nil {
		s.protected = map[string]time.Duration{}
	}
	for _, id := range ids {
		if t := s.task(clusterName, id); t == nil {
			failed = append(failed, cluster.Failure{ARN: id, Reason: "MISSING"})
			continue
		}
		s.protected[id] = d
	}
	done, _, err = s.DescribeTaskProtections(context.Background(), clusterName, ids)
	return done, failed, err
}

func (s *scheduler) DescribeTaskProtections(_ context.Context, clusterName string, ids []string) (done []operation.ProtectedTask, failed []cluster.Failure, err error) {
	for _, id := range ids {
		if s.task(clusterName, id) == nil {
			failed = append(failed, cluster.Failure{ARN: id, Reason: "MISSING"})
			continue
		}
		p := operation.ProtectedTask{Task: id}
		if d := s.protected[id]; d > 0 {
			p.Until = after(d)
		}
		done = append(done, p)
	}
	return done, failed, s.in(clusterName)
}
