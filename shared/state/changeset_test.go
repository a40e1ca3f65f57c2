package state_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

func TestChangeSet(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	of := state.Meta{Head: cluster.Head{Cluster: "prod"}, Version: 9, CreatedAt: now.Add(-time.Hour)}
	gone := state.InstanceKey("prod", "b")
	instance := &cluster.Instance{Head: cluster.Head{Cluster: "prod", Rev: 3}, ID: "a", Status: cluster.InstanceActive}
	task := &cluster.Task{Head: cluster.Head{Cluster: "prod", Rev: 2}, TaskSpec: cluster.TaskSpec{Owner: "o", ID: "t"}}
	changes := []state.Change{
		{Key: gone}, {Key: state.KeyOf(task), Row: task}, {Key: state.KeyOf(instance), Row: instance},
	}

	t.Run("GivesBackItsRows", func(t *testing.T) {
		set := state.NewChangeSet(of, 7, now)
		if err := set.Pack(changes); err != nil {
			t.Fatal(err)
		}
		got, err := set.Unpack()
		want := []state.Change{changes[2], changes[1], changes[0]}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
		if set.Omitted || set.Expires != now.Add(10*time.Minute).Unix() || !set.At.Equal(now) || set.Version != 9 ||
			!set.ClusterCreatedAt.Equal(of.CreatedAt) {
			t.Errorf("the set is %+v", set)
		}
	})
	t.Run("IsEmptyWithoutRows", func(t *testing.T) {
		set := state.NewChangeSet(of, 7, now)
		if got, err := set.Unpack(); err != nil || got != nil {
			t.Errorf("got %v, %v", got, err)
		}
	})
	t.Run("OmitsRowsThatAreTooLarge", func(t *testing.T) {
		rng, large := rand.New(rand.NewPCG(1, 1)), []state.Change{}
		for n := range 8000 { // random, so that nothing is the same in two of them
			other := *task
			other.ID = fmt.Sprintf("%016x%016x%016x%016x%d", rng.Uint64(), rng.Uint64(), rng.Uint64(), rng.Uint64(), n)
			large = append(large, state.Change{Key: state.KeyOf(&other), Row: &other})
		}
		set := state.NewChangeSet(of, 7, now)
		if err := set.Pack(large[:2000]); err != nil || set.Omitted || set.Packed == "" {
			t.Errorf("of 2000 tasks: omitted %v, %v", set.Omitted, err)
		}
		if err := set.Pack(large); err != nil || !set.Omitted || set.Packed != "" {
			t.Errorf("of 8000 tasks: omitted %v, %d bytes, %v", set.Omitted, len(set.Packed), err)
		}
	})
	t.Run("HasNoOtherRows", func(t *testing.T) {
		s := &cluster.Service{Head: cluster.Head{Cluster: "prod"}}
		set := state.NewChangeSet(of, 7, now)
		if err := set.Pack([]state.Change{{Key: state.KeyOf(s), Row: s}}); err == nil {
			t.Error("a service is packed")
		}
	})
	t.Run("RangeBeginsAfterABatch", func(t *testing.T) {
		r := state.ChangeSetsAfter("prod", 9, 100)
		for batch, want := range map[int64]bool{1: false, 9: false, 10: true, 100: true} {
			sort := state.KeyOf(state.NewChangeSet(of, batch, now)).Sort
			if is := r.From <= sort && sort < r.To; is != want {
				t.Errorf("batch %d is in the range after 9: %v", batch, is)
			}
		}
	})
	t.Run("SaysWhatIsBroken", func(t *testing.T) {
		set := state.NewChangeSet(of, 7, now)
		set.Packed = "no base64"
		if _, err := set.Unpack(); err == nil {
			t.Error("broken text is unpacked")
		}
	})
}
