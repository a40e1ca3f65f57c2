package api

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// Dependencies are the ports and settings that all operations share.
type Dependencies struct {
	State    state.Store
	ECS      handler.ECS
	Clock    handler.Clock
	Settings handler.Settings
	Log      *slog.Logger
	// NewID returns 32 unique hex digits: the id of a request without a clientToken.
	// If it is nil, ids are random.
	NewID func() string

	turns *turns
	reads *snapshot.SharedReads
}

// A Handler answers Berth's own operations, with a type for each kind of thing. The types are small
// so that callers depend on what they use: package wire asks for each one through an interface of
// its own. Errors are [cluster.Error] with the API's codes.
type Handler struct {
	*Dependencies
	Clusters          *Clusters
	Services          *Services
	Deployments       *Deployments
	TaskSets          *TaskSets
	Tasks             *Tasks
	TaskProtections   *TaskProtections
	Tags              *Tags
	CapacityProviders *CapacityProviders
	ClusterProviders  *ClusterProviders
	Configurations    *Configurations
	Loads             *Loads
	Rows              *Rows
	NodeGroups        *NodeGroups
	AccountSettings   *AccountSettings
}

// New returns a handler whose parts share d.
func New(d Dependencies) *Handler {
	if d.NewID == nil {
		d.NewID = randomID
	}
	d.turns = &turns{calls: map[string][]*turn{}, held: map[string]int{}}
	d.reads = snapshot.NewSharedReads()
	return &Handler{
		Dependencies: &d, Clusters: &Clusters{&d}, Services: &Services{Dependencies: &d},
		Deployments: &Deployments{&d}, TaskSets: &TaskSets{&d}, Tasks: &Tasks{&d},
		TaskProtections: &TaskProtections{&d}, Tags: &Tags{&d},
		CapacityProviders: &CapacityProviders{&d}, ClusterProviders: &ClusterProviders{&d},
		Configurations: &Configurations{&d}, Loads: &Loads{&d}, Rows: &Rows{&d}, NodeGroups: &NodeGroups{&d},
		AccountSettings: &AccountSettings{&d},
	}
}

// describeEach looks up what callers name, in their order. What does not exist, so that read
// returns nil, becomes a MISSING failure: ECS's Describe operations fail for no single item.
func describeEach[R, T any](refs []R, read func(R) (*T, error)) (found []*T, missing []cluster.Failure, err error) {
	for _, ref := range refs {
		switch one, err := read(ref); {
		case err != nil:
			return nil, nil, err
		case one == nil:
			missing = append(missing, missingFailure(fmt.Sprint(ref)))
		default:
			found = append(found, one)
		}
	}
	return found, missing, nil
}

// missingFailure returns ECS's failure for something that does not exist. Package wire completes
// bare names to ARNs.
func missingFailure(arn string) cluster.Failure { return cluster.Failure{ARN: arn, Reason: "MISSING"} }

// expiresAfter returns the time-to-live of a row that is kept for d, in seconds since 1970.
func (a *Dependencies) expiresAfter(d time.Duration) int64 { return a.Clock.Now().Add(d).Unix() }

func randomID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // it never fails
	return hex.EncodeToString(b)
}
