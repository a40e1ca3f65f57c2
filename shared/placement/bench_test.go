package placement_test

import (
	"fmt"
	"testing"

	"berth/shared/cluster"
	"berth/shared/placement"
)

// large is a cluster of 5,000 instances in three zones with four tasks on each: 5,000 of "web", the rest of others.
func large() *cluster.Snapshot {
	s := cluster.NewSnapshot()
	for n := range 5000 {
		id := cluster.Digest("instance", fmt.Sprint(n))
		i := instance(id, zone(fmt.Sprintf("us-east-1%c", 'a'+n%3)), cpu(8192), memory(16384), attribute("ecs.capability.task-eni", ""))
		s.Put(i)
		for k := range 4 {
			t := task(cluster.Digest(id, fmt.Sprint(k)), id, group("service:web"))
			if k > 0 {
				t.Owner = fmt.Sprintf("other-%d", n%40)
			}
			s.Put(t)
		}
	}
	return s
}

func BenchmarkPlace(b *testing.B) {
	s := large()
	none := placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{CPU: 99 * cluster.VCPU}, Owner: "web"}, Count: 1}
	attributes := web(1)
	attributes.Spec.Attributes = []string{"ecs.capability.task-eni"}
	idle, thousand := web(1), web(1000)
	idle.Spec.Owner, thousand.Spec.Owner = "new", "new"
	for name, r := range map[string]placement.Request{
		"One": web(1), "OneOfNewOwner": idle, "OneWithAttribute": attributes, "Ten": web(10), "Thousand": web(1000),
		"ThousandOfNewOwner": thousand, "NoneFits": none,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				placement.New(s).Place(r)
			}
		})
	}
}

func BenchmarkDaemon(b *testing.B) {
	s := large()
	r := placement.Request{Spec: &placement.Spec{Needs: small, Owner: "agent", PerInstance: 1}}
	r.Instances = placement.New(s).Eligible(r.Spec)
	r.Count = len(r.Instances)
	b.Run("Eligible", func(b *testing.B) {
		for b.Loop() {
			placement.New(s).Eligible(r.Spec)
		}
	})
	b.Run("Place", func(b *testing.B) {
		for b.Loop() {
			placement.New(s).Place(r)
		}
	})
}

func BenchmarkChooseStops(b *testing.B) {
	s := large()
	tasks := s.Owned("web")
	for b.Loop() {
		stop(s, tasks, 2500)
	}
}
