package workload

import "math/rand/v2"

// tasksToFill returns how many tasks of a mean size fill so many hundredths of the instances' CPU,
// plus the 1 % by which the stream is longer.
func tasksToFill(instances int, hundredths, cpu float64) int {
	return int(float64(instances*instanceCPU) * hundredths / 100 / cpu * 1.01)
}

// mixedServices returns three services for each of 25 sizes, one of them for ssd only, all with the
// same number of tasks.
func mixedServices(instances int) []Service {
	cpus := []int64{128, 256, 384, 512, 1024}
	memories := []int64{1 << 10, 2 << 10, 3 << 10, 4 << 10, 8 << 10}
	const mean = (128 + 256 + 384 + 512 + 1024) / 5.0
	var out []Service
	for _, cpu := range cpus {
		for _, memory := range memories {
			for third := range 3 {
				s := Service{CPU: cpu, Memory: memory}
				if third == 0 {
					s.Where = []Match{{"disk", []string{"ssd"}}}
				}
				out = append(out, s)
			}
		}
	}
	for i := range out {
		out[i].Replicas = tasksToFill(instances, 80, mean) / len(out)
	}
	return out
}

// replicas are the desired counts of services: many small ones, a few large ones.
var replicas = []int{3, 6, 12, 20, 24, 40, 60, 80, 120, 200, 300}

// replicatedServices returns services of one size: eight tasks fill an instance.
func replicatedServices(instances int, r *rand.Rand) []Service {
	const cpu = instanceCPU / 8
	var out []Service
	for _, n := range replicaCounts(tasksToFill(instances, 85, cpu), instances, r) {
		out = append(out, Service{Replicas: n, CPU: cpu, Memory: instanceMemory / 8})
	}
	return out
}

// replicaCounts returns desired counts that add up to total: each of replicas once, in some order,
// and again. None is higher than the number of instances.
func replicaCounts(total, instances int, r *rand.Rand) []int {
	var out []int
	for total > 0 {
		for _, i := range r.Perm(len(replicas)) {
			n := min(replicas[i], instances, total)
			if total -= n; n > 0 {
				out = append(out, n)
			}
		}
	}
	return out
}

// allRulesServices returns services of three sizes that use everything a task can ask for. The mean
// size is a little below the middle one, hence 83.5 for 80.
func allRulesServices(instances int, r *rand.Rand) []Service {
	sizes := []Service{{CPU: 256, Memory: 2 << 10}, {CPU: 384, Memory: 3 << 10}, {CPU: 512, Memory: 4 << 10}}
	var out []Service
	for k, n := range replicaCounts(tasksToFill(instances, 83.5, 384), instances, r) {
		s := sizes[k%len(sizes)]
		s.Replicas = n
		s.Binpack = true
		s.Loads = []Metric{{"connections", int64(4 << (k % 3))}, {"iops", int64(40 << (k / 3 % 3))}}
		if k%4 == 2 {
			s.HostPort = 8000 + k/4%16
		}
		if k%16 == 1 {
			s.GPUs, s.CPU, s.Memory = int64(1+k/16%2), sizes[0].CPU, sizes[0].Memory
		} else {
			s.Where = matchesOf(k)
		}
		out = append(out, s)
	}
	return out
}

// matchesOf gives half of the services something to match.
func matchesOf(k int) []Match {
	disk := Match{"disk", []string{"ssd"}}
	generation := Match{"generation", []string{"m6", "m7"}}
	return [][]Match{nil, {disk}, nil, {generation}, nil, {disk, generation}}[k/3%6]
}
