package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// A client calls the API and the simulated AWS, and notes what came of it.
type client struct {
	endpoint string

	mu        sync.Mutex
	calls     map[string]int
	taken     map[string][]time.Duration
	throttled int
	failures  []error // the first few
}

// maxFailures is how many failures are kept: the first ones say what is wrong.
const maxFailures = 10

// readOperations are the reads of the load, which readers make in turn.
var readOperations = []string{"ListTasks", "DescribeTasks", "ListServices", "DescribeServices",
	"ListContainerInstances", "DescribeContainerInstances"}

func isRead(op string) bool { return slices.Contains(readOperations, op) }

// callTimeout is how long a call may take. One that has begun when the run ends still counts.
const callTimeout = 10 * time.Second

// call makes one call of the API. A call that is throttled is counted and is no error.
func (c *client) call(ctx context.Context, op, body string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113."+op)
	begin := time.Now()
	status, answer, err := send(r)
	took := time.Since(begin)
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.Contains(answer, "ThrottlingException") {
		c.throttled++
		return "", nil
	}
	c.calls[op]++
	c.taken[op] = append(c.taken[op], took)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%d %s", status, answer)
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w", op, body, err)
		if len(c.failures) < maxFailures {
			c.failures = append(c.failures, err)
		}
	}
	return answer, err
}

func send(r *http.Request) (status int, answer string, err error) {
	out, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(out.Body)
	return out.StatusCode, string(text), join(err, out.Body.Close())
}

func join(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// read makes reads of all kinds in turn until the run is over. Lists go from page to page, and what
// they name is described.
func (c *client) read(ctx context.Context, s size, reader int) {
	random := rand.New(rand.NewPCG(1, uint64(reader))) //nolint:gosec // it draws a load
	token := map[string]string{}
	var tasks, instances []string
	// Readers begin one after the other: clients that know nothing of each other do not call together.
	begin := time.NewTicker(max(1, s.readGap*time.Duration(reader)/time.Duration(s.readers)))
	wait(ctx, begin)
	begin.Stop()
	ticks := time.NewTicker(s.readGap)
	defer ticks.Stop()
	for n := reader; wait(ctx, ticks); n++ {
		op := readOperations[n%len(readOperations)]
		in := map[string]any{}
		switch op {
		case "ListTasks":
			switch n / len(readOperations) % 3 {
			case 0:
				in["serviceName"] = fmt.Sprint("s", random.IntN(s.services))
			case 1:
				if len(instances) > 0 {
					in["containerInstance"] = instances[random.IntN(len(instances))]
				}
			}
		case "DescribeTasks":
			in["tasks"] = orUnknown(tasks)
		case "DescribeContainerInstances":
			in["containerInstances"] = orUnknown(instances)
		case "DescribeServices":
			in["services"] = []string{fmt.Sprint("s", random.IntN(s.services))}
		}
		pages := op == "ListServices" || op == "ListContainerInstances" || op == "ListTasks" && len(in) == 0
		if pages && token[op] != "" {
			in["nextToken"] = token[op]
		}
		body, _ := json.Marshal(in) // strings only
		answer, err := c.call(ctx, op, string(body))
		if err != nil || answer == "" {
			continue
		}
		var out struct {
			NextToken             string
			TaskArns              []string
			ContainerInstanceArns []string
		}
		if json.Unmarshal([]byte(answer), &out) != nil {
			continue
		}
		if pages {
			token[op] = out.NextToken
		}
		if len(out.TaskArns) > 0 {
			tasks = out.TaskArns
		}
		if len(out.ContainerInstanceArns) > 0 {
			instances = out.ContainerInstanceArns
		}
	}
}

// orUnknown returns what a list has named, or the id of nothing.
func orUnknown(arns []string) []string {
	if len(arns) == 0 {
		return []string{strings.Repeat("0", 32)}
	}
	return arns
}

// change makes one change after the other until the run is over: it scales services, rolls one out,
// drains a machine and takes it back, or kills one and adds another.
func (c *client) change(ctx context.Context, s size) {
	random := rand.New(rand.NewPCG(2, 2)) //nolint:gosec // it draws a load
	ticks := time.NewTicker(s.changeGap)
	defer ticks.Stop()
	draining := ""
	for n := 0; wait(ctx, ticks); n++ {
		service, base := random.IntN(s.services), s.tasks/s.services
		switch n % 8 {
		case 3:
			_, _ = c.call(ctx, "UpdateService", fmt.Sprintf(`{"service":"s%d","forceNewDeployment":true}`, service))
		case 5:
			if draining != "" {
				c.setStatus(ctx, draining, "ACTIVE")
			}
			if draining = c.pickInstance(ctx, random); draining != "" {
				c.setStatus(ctx, draining, "DRAINING")
			}
		case 7:
			if id := c.pickInstance(ctx, random); id != "" && id != draining {
				c.callFleet(ctx, http.MethodDelete, "/fleet/instances/"+id[strings.LastIndexByte(id, '/')+1:], "")
				c.callFleet(ctx, http.MethodPost, "/fleet/instances",
					`{"cluster":"default","count":1,"type":"m5.large","zones":["us-east-1a"]}`)
			}
		default:
			_, _ = c.call(ctx, "UpdateService", fmt.Sprintf(`{"service":"s%d","desiredCount":%d}`, service,
				base-base/10+random.IntN(base/5+1)))
		}
	}
}

func (c *client) setStatus(ctx context.Context, id, status string) {
	_, _ = c.call(ctx, "UpdateContainerInstancesState",
		fmt.Sprintf(`{"containerInstances":[%q],"status":%q}`, id, status))
}

// pickInstance returns an instance, "" if there is none or the run is over.
func (c *client) pickInstance(ctx context.Context, random *rand.Rand) string {
	answer, err := c.call(ctx, "ListContainerInstances", `{"status":"ACTIVE"}`)
	var out struct{ ContainerInstanceArns []string }
	if err != nil || json.Unmarshal([]byte(answer), &out) != nil || len(out.ContainerInstanceArns) == 0 {
		return ""
	}
	return out.ContainerInstanceArns[random.IntN(len(out.ContainerInstanceArns))]
}

// callFleet breaks or adds a machine of the simulated AWS.
func (c *client) callFleet(ctx context.Context, method, path, body string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.endpoint, "/")+path,
		bytes.NewReader([]byte(body)))
	if err != nil {
		return
	}
	r.Header.Set("Content-Type", "application/json")
	status, answer, err := send(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && status < 300 {
		c.calls[method+" instances"]++
		return
	}
	if len(c.failures) < maxFailures {
		c.failures = append(c.failures, fmt.Errorf("%s %s: %d %s %v", method, path, status, answer, err))
	}
}

// wait waits for the next tick; false when the run is over.
func wait(ctx context.Context, ticks *time.Ticker) bool {
	select {
	case <-ctx.Done():
		return false
	case <-ticks.C:
		return true
	}
}

// runningTasks returns how many tasks run in the cluster of an answer of DescribeClusters.
func runningTasks(answer string) int {
	var out struct {
		Clusters []struct{ RunningTasksCount int }
	}
	if json.Unmarshal([]byte(answer), &out) != nil || len(out.Clusters) != 1 {
		return 0
	}
	return out.Clusters[0].RunningTasksCount
}
