package decide

import (
	"berth/shared/cluster"
	"berth/shared/decide/plan"
	"berth/shared/service"
)

// updateRegistrations registers tasks of the service that have become RUNNING, and deregisters
// those that have ended (S9).
func updateRegistrations(view *clusterView, commits *plan.Builder, s *cluster.Service, p *service.Plan) {
	for _, t := range p.RegisterTargets {
		if now := view.snap.Task(t.Owner, t.ID); now == nil || !now.IsActive() {
			continue // stopped by the same plan
		}
		commits.KeepTogether(2)
		commits.PutRow(newTarget(s, t))
		commits.RequestRegistration(t.Owner, t.ID)
	}
	for _, t := range p.DeregisterTargets {
		commits.RequestDeregistration(t.Owner, t.ID)
	}
}

// newTarget returns where a task of the service is to be registered.
func newTarget(s *cluster.Service, t *cluster.Task) *cluster.Target {
	row := &cluster.Target{
		Head: cluster.Head{Cluster: s.Cluster, Rev: 1}, Task: t.ID, Owner: t.Owner, Service: s.Name,
	}
	revision := s.Revision(t.Revision)
	if revision == nil {
		return row
	}
	for _, lb := range revision.LoadBalancers {
		row.Registrations = append(row.Registrations, cluster.Registration{
			ARN: lb.TargetGroup, Container: lb.Container, ContainerPort: lb.Port,
		})
	}
	externalID := ""
	if set := s.OfRevision(t.Revision).Deployment.Set; set != nil {
		externalID = set.ExternalID
	}
	for _, r := range revision.Registries {
		row.Registrations = append(row.Registrations, cluster.Registration{
			ARN: r.ARN, Registry: true, Container: r.Container, ContainerPort: r.ContainerPort, Port: r.Port,
			ExternalID: externalID,
		})
	}
	return row
}
