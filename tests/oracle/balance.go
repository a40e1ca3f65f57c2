package oracle

import (
	"math"

	"berth/shared/cluster"
)

// Unevenness is how far a cluster is from being balanced, counted from rows alone: for each metric
// the standard deviation of the instances' loads in multiples of their mean, and for zones and
// instances the share of tasks that are more than an even part of their service's tasks.
type Unevenness struct {
	Metrics          map[string]float64
	Zones, Instances float64
}

// Distance returns the weighted sum: metrics 1, zones 4, instances 1.
func (u Unevenness) Distance() (sum float64) {
	for _, d := range u.Metrics {
		sum += d
	}
	return sum + 4*u.Zones + u.Instances
}

// MeasureBalance measures a cluster whose services may use all its instances. Loads are those of
// the tasks' own rows.
func MeasureBalance(instances []*cluster.Instance, tasks []*cluster.Task) Unevenness {
	zones := map[string]bool{}
	zoneOf := map[string]string{}
	for _, i := range instances {
		zoneOf[i.ID] = i.Attributes[cluster.AttributeZone]
		zones[zoneOf[i.ID]] = true
	}
	type place struct{ owner, where string }
	inZone, onInstance, size := map[place]int{}, map[place]int{}, map[string]int{}
	loads := map[string]map[string]float64{}
	for _, t := range tasks {
		size[t.Owner]++
		inZone[place{t.Owner, zoneOf[t.Instance]}]++
		onInstance[place{t.Owner, t.Instance}]++
		for name, load := range t.Reported {
			if loads[name] == nil {
				loads[name] = map[string]float64{}
			}
			loads[name][t.Instance] += float64(load)
		}
	}
	out := Unevenness{Metrics: map[string]float64{}}
	surplus := func(counts map[place]int, groups int) float64 {
		sum := 0
		for p, n := range counts {
			sum += max(0, n-int(math.Ceil(float64(size[p.owner])/float64(groups))))
		}
		return float64(sum) / float64(len(tasks))
	}
	out.Zones, out.Instances = surplus(inZone, len(zones)), surplus(onInstance, len(instances))
	for name, of := range loads {
		mean, squares := 0.0, 0.0
		for _, x := range of {
			mean += x / float64(len(instances))
		}
		for _, i := range instances {
			squares += (of[i.ID] - mean) * (of[i.ID] - mean)
		}
		out.Metrics[name] = math.Sqrt(squares/float64(len(instances))) / mean
	}
	return out
}
