package service

import (
	"fmt"
	"time"

	"berth/shared/cluster"
)

// A LoadScale is a desired count that follows from the load (Service Fabric, "Auto scaling").
type LoadScale struct {
	Desired int
	Why     string // empty if the count stays
}

// ScaleByLoad returns the desired count by the average load of the tasks: below the lower threshold
// it falls by the increment, above the upper one it rises, and it stays within the bounds.
// instances is the upper bound if the service names none: the count rises to it at most, and may be above it
// otherwise. Without tasks there is no average, and only the bounds count.
func ScaleByLoad(l *cluster.LoadScaling, desired int, loads []int64, instances int) LoadScale {
	next, why := desired, ""
	if len(loads) > 0 {
		sum := 0.0
		for _, n := range loads {
			sum += float64(n)
		}
		average := sum / float64(len(loads))
		switch {
		case average > l.Upper:
			next, why = desired+l.Increment, fmt.Sprintf("the average load of %s is %.4g, above %g", l.Metric, average,
				l.Upper)
		case average < l.Lower:
			next, why = desired-l.Increment, fmt.Sprintf("the average load of %s is %.4g, below %g", l.Metric, average,
				l.Lower)
		}
	}
	most := l.Max
	if most < 0 && next > desired {
		most = max(instances, l.Min)
	} else if most < 0 {
		most = max(next, l.Min)
	}
	switch bounded := min(max(next, l.Min), most); {
	case bounded == desired:
		return LoadScale{Desired: desired}
	case next == desired: // the bounds alone change it
		return LoadScale{bounded, fmt.Sprintf("it stays from %d to %d", l.Min, most)}
	default:
		return LoadScale{bounded, why}
	}
}

// LoadInterval returns when the present interval of load scaling began. Intervals are counted from
// the service's creation, so every decision that is made again has the same ones.
func LoadInterval(s *cluster.Service, now time.Time) time.Time {
	interval := s.Rules.Scaling.Interval()
	return s.CreatedAt.Add(max(0, now.Sub(s.CreatedAt)) / interval * interval)
}

// LoadScaledMessage says that the load has changed the desired count.
func LoadScaledMessage(name string, from, to int, why string) string {
	return serviceMessage(name, fmt.Sprintf("has set its desired count from %d to %d: %s.", from, to, why))
}
