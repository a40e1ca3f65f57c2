package servicefabric

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth/shared/cluster"
)

// The sections of fabricSettings about metrics whose load is gathered on few nodes instead of
// evened out (Service Fabric cluster settings, "DefragmentationMetrics").
const (
	gatheredSection = "DefragmentationMetrics"
	emptySection    = "DefragmentationMetricsPercentOrNumberOfEmptyNodesTriggeringThreshold"
	domainSection   = "DefragmentationEmptyNodeDistributionPolicy"
)

func isDefragmentation(section string) bool {
	return section == gatheredSection || section == emptySection || section == domainSection
}

// defragmentation collects these sections, by metric. Service Fabric has the number of empty nodes
// for each metric, Berth one for all of them.
type defragmentation struct {
	gathered map[string]bool
	empty    map[string]float64 // nodes, or below 1 a share of them
	domains  map[string]bool    // empty nodes over all domains
}

func newDefragmentation() defragmentation {
	return defragmentation{map[string]bool{}, map[string]float64{}, map[string]bool{}}
}

// add adds one parameter.
func (d *defragmentation) add(section, metric, value string) error {
	value = strings.TrimSpace(value)
	switch section {
	case gatheredSection:
		is, err := strconv.ParseBool(strings.ToLower(value))
		if err != nil {
			return fmt.Errorf("expected true or false")
		}
		d.gathered[metric] = is
	case emptySection:
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || !(n >= 0) || n >= 1 && (n != float64(int64(n)) || n > maxNodes) {
			return fmt.Errorf("expected a share from 0 to below 1, or a whole number of nodes up to %d", maxNodes)
		}
		d.empty[metric] = n
	case domainSection:
		if value != "0" && value != "1" {
			return fmt.Errorf("expected 0 (over all domains) or 1")
		}
		d.domains[metric] = value == "0"
	}
	return nil
}

// apply sets what the sections say, and returns the paths of what does not count: of metrics that
// are not gathered, of all metrics if the only numbers of empty nodes are 0, and where metrics differ, of
// all but the largest number. A number of nodes is larger than a share. Without any number, the metrics'
// balancing thresholds say when load is gathered.
func (d *defragmentation) apply(c *cluster.Configuration) (unused [][]string) {
	var metrics []string
	most, overDomains := 0.0, false
	for _, metric := range slices.Sorted(maps.Keys(d.gathered)) {
		if d.gathered[metric] {
			metrics = append(metrics, metric)
			most, overDomains = max(most, d.empty[metric]), overDomains || d.domains[metric]
		}
	}
	for metric, n := range d.empty {
		if !d.gathered[metric] || n != most {
			unused = append(unused, []string{emptySection, metric})
		}
	}
	for metric, over := range d.domains {
		if !d.gathered[metric] || over != overDomains {
			unused = append(unused, []string{domainSection, metric})
		}
	}
	if most == 0 && len(d.empty) > 0 || len(metrics) == 0 {
		for _, metric := range metrics {
			unused = append(unused, []string{gatheredSection, metric})
		}
		return unused
	}
	if c.Rebalancing == nil {
		c.Rebalancing = &cluster.Rebalancing{}
	}
	c.Rebalancing.EmptyMetrics, c.Rebalancing.EmptyOverDomains = metrics, overDomains
	if most < 1 {
		c.Rebalancing.EmptyShare = most
	} else {
		c.Rebalancing.EmptyInstances = int(most)
	}
	return unused
}
