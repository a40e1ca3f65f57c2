package cluster

import "encoding/json"

// UnmarshalJSON reads a service's row. Rows written before services could have several deployments
// have the revision's fields beside the deployment, not in it.
func (s *Service) UnmarshalJSON(data []byte) error {
	type plain Service
	if err := json.Unmarshal(data, (*plain)(s)); err != nil || s.Deployment.TaskDefinition != "" {
		return err
	}
	var before struct {
		TaskDefinition string   `json:"td"`
		Network        *Network `json:"nw"`
		Deployment     struct {
			Completed bool `json:"co"`
		} `json:"dp"`
	}
	if err := json.Unmarshal(data, &before); err != nil {
		return err
	}
	d := &s.Deployment
	d.TaskDefinition, d.Network, d.Constraints = before.TaskDefinition, before.Network, s.Rules.Constraints
	if before.Deployment.Completed {
		d.State = RolloutCompleted
	}
	return nil
}
