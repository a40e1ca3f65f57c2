package berthapi

import "context"

// RebalanceOutput says which cluster is being balanced.
type RebalanceOutput struct {
	Cluster string `json:"cluster"`
}

func (s *server) rebalanceCluster(ctx context.Context, in *ClusterInput) (*RebalanceOutput, error) {
	name, err := s.ClusterName(&in.Cluster)
	if err != nil {
		return nil, err
	}
	return &RebalanceOutput{Cluster: name}, s.Balances.RequestBalance(ctx, name)
}
