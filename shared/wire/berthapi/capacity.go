package berthapi

import (
	"context"
	"fmt"
	"time"

	"berth/shared/operation"
	"berth/shared/state"
	"berth/shared/wire/eksapi"
)

// CapacityOutput is what a cluster's instances come from, as stored rows: its capacity providers,
// what managed scaling remembers of them, its node groups, the last update of each group's nodes, and
// before it one of its sizes or labels that has failed since.
type CapacityOutput struct {
	Rows []Row `json:"rows"`
	// At is the time of the scheduler's clock.
	At time.Time `json:"at,omitzero"`
	// Generation changes whenever placement has seen a change of the cluster. While it stays, whoever
	// has read the rows of ListClusterRows after it need not read them again.
	Generation string `json:"generation,omitempty"`
	// LostAfterSeconds is the installation's parameter of that name: how long an agent may be
	// disconnected before its tasks are replaced elsewhere.
	LostAfterSeconds *float64 `json:"lostAfterSeconds,omitempty"`
	// DeadLetters are the installation's dead-letter queues that have messages, where its queues are
	// in its own process.
	DeadLetters []operation.DeadLetters `json:"deadLetters,omitempty"`
}

func (s *server) describeCapacity(ctx context.Context, in *ClusterInput) (*CapacityOutput, error) {
	clusterName, err := s.ClusterName(&in.Cluster)
	if err != nil {
		return nil, err
	}
	generation, err := s.Resources.Rows.Generation(ctx, clusterName)
	if err != nil {
		return nil, err
	}
	rows, err := s.Resources.Rows.CapacityRows(ctx, clusterName)
	if err != nil {
		return nil, err
	}
	encoded, err := encodeRows(rows)
	if err != nil {
		return nil, err
	}
	out := &CapacityOutput{Rows: encoded, At: s.Resources.Rows.Now().UTC(), Generation: generation,
		LostAfterSeconds: new(s.Resources.Rows.DisconnectTimeout().Seconds())}
	if s.Resources.DeadLetters != nil {
		out.DeadLetters, err = s.Resources.DeadLetters(ctx)
	}
	return out, err
}

// encodeRows encodes rows as they are stored. No rows are an empty list.
func encodeRows(rows []state.Row) ([]Row, error) {
	out := []Row{}
	for _, r := range rows {
		row, err := encodeRow(r)
		if err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, nil
}

// encodeRow encodes a row as it is stored, so that `berth whatif` decides on exactly what placement
// would.
func encodeRow(r state.Row) (Row, error) {
	data, err := state.EncodeRow(r)
	if err != nil {
		return Row{}, fmt.Errorf("encoding row %s: %w", state.KeyOf(r).Sort, err)
	}
	return Row{Sort: state.KeyOf(r).Sort, Row: data}, nil
}

// PlanInput is the input of UpdateNodegroupVersion with the names that EKS has in the path.
type PlanInput struct {
	Cluster   string `json:"cluster"`
	NodeGroup string `json:"nodegroupName"`
	eksapi.VersionInput
}

// PlanOutput is the row of the update that UpdateNodegroupVersion would begin. With the same
// clientRequestToken it is the same update, so its nodes would be replaced in the same order (N4).
type PlanOutput struct {
	Update Row `json:"update"`
}

func (s *server) planUpdate(ctx context.Context, in *PlanInput) (*PlanOutput, error) {
	clusterName, err := s.ClusterName(&in.Cluster)
	if err != nil {
		return nil, err
	}
	change, err := in.ParseUpdate(clusterName, in.NodeGroup)
	if err != nil {
		return nil, err
	}
	change.DryRun = true
	u, err := s.plans.UpdateNodeGroupVersion(ctx, change)
	if err != nil {
		return nil, err
	}
	row, err := encodeRow(u)
	return &PlanOutput{row}, err
}
