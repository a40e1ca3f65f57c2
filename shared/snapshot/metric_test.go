package snapshot_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/snapshot"
	"berth/shared/state"
)

func configured(rev int64, edit func(*cluster.Configuration)) *cluster.Configuration {
	c := &cluster.Configuration{Head: cluster.Head{Cluster: "c", Rev: rev}, NodeTypes: map[string]cluster.NodeType{}}
	edit(c)
	return c
}

func capable(id string, rev int64, metrics map[string]int64) *cluster.Instance {
	i := instance(id, "a", rev)
	i.Registered.Metrics = metrics
	i.Attributes[cluster.AttributeNodeType] = "big"
	return i
}

// ofWeb makes a task one of the service web.
func ofWeb(id, instance string, rev int64) *cluster.Task {
	t := running(id, instance, rev)
	t.Service = "web"
	return t
}

func web(rev int64, metrics ...cluster.Metric) *cluster.Service {
	return &cluster.Service{
		Head:            cluster.Head{Cluster: "c", Rev: rev},
		ServiceIdentity: cluster.ServiceIdentity{Name: "web", Short: "web"},
		ServiceSpec:     cluster.ServiceSpec{Rules: cluster.Rules{Metrics: metrics}},
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name     string
		own      map[string]int64 // the instance's capacities
		edit     func(*cluster.Configuration)
		metric   string
		expected cluster.Limit
	}{
		{"NoCapacityIsNoLimit", nil, func(*cluster.Configuration) {}, "rps",
			cluster.Limit{Unbuffered: math.MaxInt64, Total: math.MaxInt64}},
		{"OfTheInstance", map[string]int64{"rps": 100}, func(*cluster.Configuration) {}, "rps",
			cluster.Limit{Unbuffered: 100, Total: 100}},
		{"OfTheNodeType", nil, func(c *cluster.Configuration) {
			c.NodeTypes["big"] = cluster.NodeType{Capacities: map[string]int64{"rps": 70}}
		}, "rps", cluster.Limit{Unbuffered: 70, Total: 70}},
		{"OfTheInstanceBeforeItsNodeType", map[string]int64{"rps": 100}, func(c *cluster.Configuration) {
			c.NodeTypes["big"] = cluster.NodeType{Capacities: map[string]int64{"rps": 70, "disk": 5}}
		}, "rps", cluster.Limit{Unbuffered: 100, Total: 100}},
		{"Buffer", map[string]int64{"rps": 100}, func(c *cluster.Configuration) {
			c.Buffer = map[string]float64{"rps": 0.2}
		}, "rps", cluster.Limit{Unbuffered: 80, Total: 100}},
		{"BufferWithoutArtefacts", map[string]int64{"rps": 100}, func(c *cluster.Configuration) {
			c.Buffer = map[string]float64{"rps": 0.9} // 100 * (1 - 0.9) is 9.999999999999998
		}, "rps", cluster.Limit{Unbuffered: 10, Total: 100}},
		{"BufferCutsOff", map[string]int64{"rps": 99}, func(c *cluster.Configuration) {
			c.Buffer = map[string]float64{"rps": 0.5}
		}, "rps", cluster.Limit{Unbuffered: 49, Total: 99}},
		{"Overbooking", map[string]int64{"rps": 100}, func(c *cluster.Configuration) {
			c.Overbooking = map[string]float64{"rps": 0.2}
		}, "rps", cluster.Limit{Unbuffered: 100, Total: 120}},
		{"OverbookingWithoutLimit", map[string]int64{"rps": 100}, func(c *cluster.Configuration) {
			c.Overbooking = map[string]float64{"rps": -1}
		}, "rps", cluster.Limit{Unbuffered: 100, Total: math.MaxInt64}},
		{"OverbookingBeyondAllNumbers", map[string]int64{"rps": math.MaxInt64 / 2}, func(c *cluster.Configuration) {
			c.Overbooking = map[string]float64{"rps": 3}
		}, "rps", cluster.Limit{Unbuffered: math.MaxInt64 / 2, Total: math.MaxInt64}},
		{"OfAnotherMetric", map[string]int64{"rps": 100}, func(c *cluster.Configuration) {
			c.Buffer = map[string]float64{"disk": 0.5}
		}, "rps", cluster.Limit{Unbuffered: 100, Total: 100}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := snapshot.NewSnapshot()
			s.Put(capable("early", 1, c.own))
			s.Put(configured(1, c.edit))
			s.Put(capable("late", 1, c.own))
			for _, id := range []string{"early", "late"} {
				expect(t, id, s.Instances[id].Limit(s.MetricIndex(c.metric)), c.expected)
			}
			s.ApplyRecord(state.Record{Op: state.Remove, Old: configured(1, c.edit)})
			without := cluster.Limit{Unbuffered: math.MaxInt64, Total: math.MaxInt64}
			if n, ok := c.own[c.metric]; ok {
				without = cluster.Limit{Unbuffered: n, Total: n}
			}
			expect(t, "without the row", s.Instances["early"].Limit(s.MetricIndex(c.metric)), without)
		})
	}
}

func TestLoads(t *testing.T) {
	load := func(s *snapshot.Snapshot, id, metric string) int64 {
		return s.Instances[id].Load(s.MetricIndex(metric))
	}
	rps := func(n int64) cluster.Metric { return cluster.Metric{Name: "rps", Load: n} }
	t.Run("OfTheServiceInAnyOrderOfRows", func(t *testing.T) {
		for _, rows := range [][]state.Row{
			{web(1, rps(5)), ofWeb("t", "i-1", 1), ofWeb("u", "i-1", 1)},
			{ofWeb("t", "i-1", 1), web(1, rps(5)), ofWeb("u", "i-1", 1)},
			{ofWeb("t", "i-1", 1), ofWeb("u", "i-1", 1), instance("i-1", "a", 1), web(1, rps(5))},
		} {
			s := snapshot.NewSnapshot()
			for _, r := range rows {
				s.Put(r)
			}
			expect(t, "load", load(s, "i-1", "rps"), 10)
		}
	})
	t.Run("FollowTheService", func(t *testing.T) {
		s := snapshot.NewSnapshot()
		s.Put(web(1, rps(5)))
		s.Put(ofWeb("t", "i-1", 1))
		s.Put(web(2, cluster.Metric{Name: "disk", Load: 3}))
		expect(t, "rps", load(s, "i-1", "rps"), 0)
		expect(t, "disk", load(s, "i-1", "disk"), 3)
		again := web(3, rps(7)) // another creation of the same name
		again.Short = "web2"
		s.Put(again)
		expect(t, "disk of the one before", load(s, "i-1", "disk"), 0)
		expect(t, "rps of the one before", load(s, "i-1", "rps"), 0)
	})
	t.Run("AsReported", func(t *testing.T) {
		s := snapshot.NewSnapshot()
		s.Put(web(1, rps(5), cluster.Metric{Name: "disk", Load: 3}))
		x := ofWeb("t", "i-1", 1)
		x.Reported = map[string]int64{"rps": 9, "sessions": 4}
		s.Put(x)
		expect(t, "reported", load(s, "i-1", "rps"), 9)
		expect(t, "default", load(s, "i-1", "disk"), 3)
		expect(t, "reported without a default", load(s, "i-1", "sessions"), 4)
		s.Put(web(2, rps(6)))
		expect(t, "reported, after a change of the default", load(s, "i-1", "rps"), 9)
		less := *x
		less.Rev, less.Reported = 2, map[string]int64{"rps": 0}
		s.Put(&less)
		expect(t, "reported as nothing", load(s, "i-1", "rps"), 0)
		expect(t, "no longer reported", load(s, "i-1", "sessions"), 0)
	})
	t.Run("OfAStandaloneTask", func(t *testing.T) {
		s := snapshot.NewSnapshot()
		x := running("t", "i-1", 1)
		x.Rules = &cluster.Rules{Metrics: []cluster.Metric{rps(2)}}
		s.Put(x)
		s.Put(web(1, rps(100))) // has the same short key here, and is not its service
		expect(t, "load", load(s, "i-1", "rps"), 2)
	})
	t.Run("UntilStopped", func(t *testing.T) {
		s := snapshot.NewSnapshot()
		s.Put(web(1, rps(5)))
		s.Put(instance("i-1", "a", 1))
		x := ofWeb("t", "i-1", 1)
		s.Put(x)
		x = ofWeb("t", "i-1", 2)
		x.Desired = cluster.TaskStopped
		s.Put(x)
		expect(t, "stopping", load(s, "i-1", "rps"), 5)
		x = ofWeb("t", "i-1", 3)
		x.Desired, x.Last = cluster.TaskStopped, cluster.TaskStopped
		s.Put(x)
		expect(t, "stopped", load(s, "i-1", "rps"), 0)
	})
}

var names = []string{"m0", "m1", "m2"}

func genMetrics(t *rapid.T) []cluster.Metric {
	var out []cluster.Metric
	for _, name := range names {
		if rapid.Bool().Draw(t, "has "+name) {
			out = append(out, cluster.Metric{Name: name, Load: rapid.Int64Range(0, 9).Draw(t, "load")})
		}
	}
	return out
}

func genAmounts(t *rapid.T) map[string]int64 {
	out := map[string]int64{}
	for _, m := range genMetrics(t) {
		out[m.Name] = m.Load
	}
	return out
}

// genMetricRows draws versions of instances, tasks, the service and the configuration. last has the
// newest of each.
func genMetricRows(t *rapid.T) (all []state.Row, last map[state.Key]state.Row) {
	last = map[state.Key]state.Row{}
	add := func(r state.Row) {
		all = append(all, r)
		last[state.KeyOf(r)] = r
	}
	for rev := range rapid.Int64Range(0, 3).Draw(t, "services") {
		add(web(rev+1, genMetrics(t)...))
	}
	for rev := range rapid.Int64Range(0, 3).Draw(t, "configurations") {
		add(configured(rev+1, func(c *cluster.Configuration) {
			c.NodeTypes["big"] = cluster.NodeType{Capacities: genAmounts(t)}
			c.Buffer = map[string]float64{"m0": rapid.SampledFrom([]float64{0, 0.1, 0.5}).Draw(t, "buffer")}
			c.Overbooking = map[string]float64{"m1": rapid.SampledFrom([]float64{0, 0.25, -1}).Draw(t, "overbooking")}
		}))
	}
	for n := range 3 {
		for rev := range rapid.Int64Range(0, 2).Draw(t, "instances") {
			add(capable(fmt.Sprintf("i-%d", n), rev+1, genAmounts(t)))
		}
	}
	for n := range rapid.IntRange(0, 6).Draw(t, "tasks") {
		for rev := range rapid.Int64Range(1, 3).Draw(t, "revs") {
			x := genTask(t, fmt.Sprintf("t-%d", n), rev+1)
			x.Desired, x.Reported = cluster.TaskRunning, genAmounts(t)
			if rapid.Bool().Draw(t, "of the service") {
				x.Service = "web"
			} else {
				x.Rules = &cluster.Rules{Metrics: genMetrics(t)}
			}
			add(x)
		}
	}
	return all, last
}

// Loads and limits follow from the last versions of all rows, in whatever order these arrive.
func TestLoadsAndLimitsFollowTheLastRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, last := genMetricRows(t)
		s := snapshot.NewSnapshot()
		for _, row := range rapid.Permutation(all).Draw(t, "order") {
			s.Put(row)
		}
		for _, key := range slices.SortedFunc(maps.Keys(last),
			func(a, b state.Key) int { return cmpText(a.Sort, b.Sort) }) {
			if rapid.IntRange(0, 5).Draw(t, "removed") == 0 {
				s.ApplyRecord(state.Record{Op: state.Remove, Key: key, Old: last[key]})
				delete(last, key)
			}
		}
		if diff := cmp.Diff(metricScan(last), metricPicture(s)); diff != "" {
			t.Fatalf("scan (-) and snapshot (+) differ:\n%s", diff)
		}
	})
}

// metricPicture leaves out values that are the default.
func metricPicture(s *snapshot.Snapshot) map[string]string {
	out := map[string]string{}
	for id, v := range s.Instances {
		for at, name := range s.MetricNames() {
			if n := v.Load(at); n != 0 {
				out[id+" load "+name] = fmt.Sprint(n)
			}
			if l := v.Limit(at); l.Unbuffered != math.MaxInt64 || l.Total != math.MaxInt64 {
				out[id+" limit "+name] = fmt.Sprint(l)
			}
		}
	}
	return out
}

func metricScan(rows map[state.Key]state.Row) map[string]string {
	service, _ := rows[state.ServiceKey("c", "web")].(*cluster.Service)
	config, _ := rows[state.Key{Cluster: "c", Sort: state.PrefixConfiguration}].(*cluster.Configuration)
	if config == nil {
		config = &cluster.Configuration{}
	}
	out, loads := map[string]string{}, map[string]int64{}
	for _, row := range rows {
		switch r := row.(type) {
		case *cluster.Instance:
			for _, name := range names {
				capacity, ok := r.Registered.Metrics[name]
				if !ok {
					capacity, ok = config.NodeTypes["big"].Capacities[name]
				}
				if ok {
					l := cluster.Limit{Unbuffered: int64(math.Round(10*float64(capacity)*(1-config.Buffer[name]))) / 10}
					l.Total = int64(float64(capacity) * (1 + config.Overbooking[name]))
					if config.Overbooking[name] < 0 {
						l.Total = math.MaxInt64
					}
					out[r.ID+" limit "+name] = fmt.Sprint(l)
				}
			}
		case *cluster.Task:
			if r.Instance == "" || r.Last == cluster.TaskStopped {
				continue
			}
			own := map[string]int64{}
			if r.Service == "" {
				for _, m := range r.Rules.Metrics {
					own[m.Name] = m.Load
				}
			} else if service != nil {
				for _, m := range service.Rules.Metrics {
					own[m.Name] = m.Load
				}
			}
			maps.Copy(own, r.Reported)
			for name, n := range own {
				loads[r.Instance+" load "+name] += n
			}
		}
	}
	for key, n := range loads {
		if n != 0 {
			out[key] = fmt.Sprint(n)
		}
	}
	return out
}
