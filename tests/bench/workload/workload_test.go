package workload_test

import (
	"reflect"
	"testing"

	"berth/tests/bench/workload"
)

func each(t *testing.T, size int, test func(*testing.T, *workload.Workload)) {
	for _, name := range workload.Names {
		t.Run(name, func(t *testing.T) {
			w, err := workload.Make(name, size, 1)
			if err != nil {
				t.Fatal(err)
			}
			test(t, w)
		})
	}
}

func TestSameSeedSameWorkload(t *testing.T) {
	each(t, 1000, func(t *testing.T, w *workload.Workload) {
		again, _ := workload.Make(w.Name, 1000, 1)
		if !reflect.DeepEqual(w, again) {
			t.Error("the same seed made another workload")
		}
		other, _ := workload.Make(w.Name, 1000, 2)
		differs := false
		for i := range w.Live {
			differs = differs || w.Service(i) != other.Service(i)
		}
		if !differs {
			t.Error("another seed made the same stream")
		}
	})
}

func TestRefusesWhatIsNoWorkload(t *testing.T) {
	if _, err := workload.Make("none", 1000, 1); err == nil {
		t.Error("an unknown name was accepted")
	}
	if _, err := workload.Make(workload.Mixed, workload.Fewest-1, 1); err == nil {
		t.Error("too few instances were accepted")
	}
}

func TestInstances(t *testing.T) {
	each(t, 5000, func(t *testing.T, w *workload.Workload) {
		count := map[string]int{}
		for _, n := range w.Instances {
			for _, key := range []string{"zone " + n.Zone, "rack " + n.Zone + n.Rack, "fd " + n.FaultDomain,
				"ud " + n.UpgradeDomain, "disk " + n.Disk, "id " + n.ID} {
				if count[key]++; count[key] == 1 {
					count[key[:2]]++
				}
			}
			if n.CPU != 4096 || n.Memory != 32768 {
				t.Fatalf("%s has %d CPU and %d MiB", n.ID, n.CPU, n.Memory)
			}
			if n.GPUs > 0 {
				count["GPU"]++
			}
			if n.Capacities != nil {
				count["capacity"]++
			}
		}
		want := map[string]int{"zo": 3, "ra": 50, "fd": 51, "ud": 20, "disk ssd": 2500, "id": 5000}
		if w.Name == workload.Everything {
			want["GPU"], want["capacity"] = 1250, 2500
		}
		for key, n := range want {
			if count[key] != n {
				t.Errorf("%s: %d, want %d", key, count[key], n)
			}
		}
	})
}

func TestStreamFillsAndNeverExceedsReplicas(t *testing.T) {
	each(t, 1000, func(t *testing.T, w *workload.Workload) {
		var cpu, most int64
		live := make([]int, len(w.Services))
		for i := range 3 * w.Live {
			if i >= w.Live {
				live[w.Service(i-w.Live)]--
				cpu -= w.Services[w.Service(i-w.Live)].CPU
			}
			s := w.Service(i)
			cpu += w.Services[s].CPU
			if live[s]++; live[s] > w.Services[s].Replicas {
				t.Fatalf("task %d is number %d of %s, which has %d", i, live[s], w.Services[s].Name,
					w.Services[s].Replicas)
			}
			most = max(most, cpu)
		}
		if part := float64(most) / (1000 * 4096); part < 0.78 || part > 0.87 {
			t.Errorf("%.3f of the CPU is used at most", part)
		}
		if len(w.Services) < 50 {
			t.Errorf("only %d services", len(w.Services))
		}
	})
}

func TestServices(t *testing.T) {
	mixed, _ := workload.Make(workload.Mixed, 5000, 1)
	sizes, ssd, total := map[[2]int64]int{}, 0, 0
	for _, s := range mixed.Services {
		sizes[[2]int64{s.CPU, s.Memory}] += s.Replicas
		total += s.Replicas
		if s.Expression() == "attribute:disk == ssd" {
			ssd += s.Replicas
		}
	}
	if len(sizes) != 25 || ssd*3 != total {
		t.Errorf("%d sizes, %d of %d need ssd", len(sizes), ssd, total)
	}
	rich, _ := workload.Make(workload.Everything, 5000, 1)
	uses := map[string]int{}
	for _, s := range rich.Services {
		for key, is := range map[string]bool{
			"port": s.HostPort > 0, "one GPU": s.GPUs == 1, "two GPUs": s.GPUs == 2, "two metrics": len(s.Loads) == 2,
			"spread, binpack": s.Spread && s.Binpack, s.Expression(): true,
		} {
			if is {
				uses[key] += s.Replicas
			}
		}
	}
	for _, key := range []string{
		"port", "one GPU", "two GPUs", "two metrics", "spread, binpack", "", "attribute:disk == ssd",
		"attribute:generation in [m6, m7]", "attribute:disk == ssd and attribute:generation in [m6, m7]",
	} {
		if uses[key] == 0 {
			t.Errorf("no task for %q of %v", key, uses)
		}
	}
}

// TestSeatsKeepEveryRule checks where a run starts: that there is room, and that services are even
// over their domains.
func TestSeatsKeepEveryRule(t *testing.T) {
	type group struct {
		service, of string
		domains     int
	}
	each(t, 1000, func(t *testing.T, w *workload.Workload) {
		room := workload.NewRoom(w.Instances)
		count := map[group]map[string]int{}
		add := func(g group, domain string) {
			if count[g] == nil {
				count[g] = map[string]int{}
			}
			count[g][domain]++
		}
		for i, at := range w.Seats() {
			s := &w.Services[w.Service(i)]
			if at < 0 || !room.Fits(int(at), s) {
				t.Fatalf("task %d of %s does not fit on %d", i, s.Name, at)
			}
			room.Take(int(at), s)
			n := w.Instances[at]
			if s.Alone() {
				add(group{s.Name, "instances", len(w.Instances)}, n.ID)
			}
			if s.Adaptive {
				add(group{s.Name, "data centres", 3}, n.FaultDomain[:len("fd:/dc0")])
				add(group{s.Name, "racks", 51}, n.FaultDomain)
				add(group{s.Name, "upgrade domains", 20}, n.UpgradeDomain)
			}
		}
		if (w.Name == workload.AntiAffinity || w.Name == workload.Domains) != (len(count) > 0) {
			t.Errorf("%d groups of tasks are to be even", len(count))
		}
		for g, in := range count {
			least, most := w.Live, 0
			for _, n := range in {
				least, most = min(least, n), max(most, n)
			}
			if len(in) < g.domains {
				least = 0
			}
			if most-least > 1 {
				t.Errorf("%v: from %d to %d", g, least, most)
			}
		}
	})
}

// TestFirstFitPlacesNearlyAll shows that the steady state can be kept up: rates are of tasks
// placed, not refused.
func TestFirstFitPlacesNearlyAll(t *testing.T) {
	each(t, 1000, func(t *testing.T, w *workload.Workload) {
		room, seats, refused := workload.NewRoom(w.Instances), w.Seats(), 0
		for i, at := range seats {
			room.Take(int(at), &w.Services[w.Service(i)])
		}
		for i := w.Live; i < 3*w.Live; i++ {
			slot := i % w.Live
			if at := seats[slot]; at >= 0 {
				room.Free(int(at), &w.Services[w.Service(i-w.Live)])
			}
			seats[slot] = -1
			s := &w.Services[w.Service(i)]
			for at := range w.Instances {
				if room.Fits(at, s) {
					room.Take(at, s)
					seats[slot] = int32(at)
					break
				}
			}
			if seats[slot] < 0 {
				refused++
			}
		}
		if part := float64(refused) / float64(2*w.Live); part > 0.002 {
			t.Errorf("%.4f of the tasks found no room", part)
		}
	})
}

func TestStreamAllocatesNothing(t *testing.T) {
	w, _ := workload.Make(workload.Everything, 1000, 1)
	i := 0
	if n := testing.AllocsPerRun(100, func() { w.Service(i); i += 977 }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
