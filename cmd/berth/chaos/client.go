package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"berth/shared/choice"
	"berth/shared/cluster"
	"berth/shared/sim/ecs"
)

// Client makes the calls that [Handler] serves.
type Client struct {
	HTTP interface {
		Do(*http.Request) (*http.Response, error)
	}
	// URL is the fleet's, such as http://127.0.0.1:5252.
	URL string
	// Sign signs a request with its body; nil leaves requests as they are.
	Sign func(ctx context.Context, r *http.Request, body []byte) error
}

// Request says what to break.
type Request struct {
	Kind    Kind
	Cluster string
	// Target is an instance, a task or a zone; if empty, Break chooses one.
	Target string
	// Among, if it is not nil, are the ids of the tasks that Break may choose from.
	Among    []string
	ExitCode int // of [Exit]
	Seconds  int // of [Slow]
}

// Result says what was broken, or healed.
type Result struct {
	Kind      string     `json:"kind"`
	Instances []Instance `json:"instances"` // as they were before
	Tasks     []Task     `json:"tasks"`     // likewise; of the kinds that break tasks, and of heal
	Zone      string     `json:"availabilityZone,omitempty"`
	ExitCode  *int       `json:"exitCode,omitempty"`
	Seconds   *int       `json:"startDelaySeconds,omitempty"`
}

// World returns a cluster as it is.
func (c *Client) World(ctx context.Context, clusterName string) (*World, error) {
	var out World
	return &out, c.call(ctx, http.MethodGet, "clusters/"+url.PathEscape(clusterName), nil, &out)
}

// Break breaks what the request says, or something that it chooses: the running machine with the
// most tasks, the zone with the most tasks, or the task that has run the longest.
func (c *Client) Break(ctx context.Context, r Request) (*Result, error) {
	world, err := c.World(ctx, r.Cluster)
	if err != nil {
		return nil, err
	}
	out := &Result{Kind: r.Kind.Name, Instances: []Instance{}, Tasks: []Task{}}
	switch r.Kind.Subject {
	case InstanceSubject:
		return out, c.breakInstance(ctx, r, world, out)
	case TaskSubject:
		return out, c.breakTask(ctx, r, world, out)
	case ZoneSubject:
		return out, c.breakZone(ctx, r, world, out)
	}
	return out, c.heal(ctx, r, world, out)
}

func (c *Client) breakInstance(ctx context.Context, r Request, world *World, out *Result) error {
	i := world.findInstance(r.Target)
	switch {
	case r.Target == "":
		if i = world.busiestInstance(); i == nil {
			return fmt.Errorf("%s: no machine of cluster %s runs", r.Kind.Name, r.Cluster)
		}
	case i == nil:
		return fmt.Errorf("%s: instance %s is not in cluster %s; berth chaos --list shows those that are%s",
			r.Kind.Name, r.Target, r.Cluster, suggest(r.Target, world.names(InstanceSubject)))
	}
	out.Instances = append(out.Instances, *i)
	switch path := "instances/" + i.ID; r.Kind.Name {
	case Kill:
		return c.call(ctx, http.MethodDelete, path, nil, nil)
	case Slow:
		out.Seconds = &r.Seconds
		return c.call(ctx, http.MethodPost, path+"/slow", map[string]any{"seconds": r.Seconds}, nil)
	default:
		return c.call(ctx, http.MethodPost, path+"/"+r.Kind.Name, map[string]any{}, nil)
	}
}

func (c *Client) breakTask(ctx context.Context, r Request, world *World, out *Result) error {
	t := world.findTask(r.Target)
	switch {
	case r.Target == "":
		var err error
		if t, err = chooseTask(r, world); err != nil {
			return err
		}
	case t == nil:
		return fmt.Errorf("%s: task %s does not run in cluster %s; berth chaos --list shows those that do%s",
			r.Kind.Name, r.Target, r.Cluster, suggest(r.Target, world.names(TaskSubject)))
	}
	out.Tasks = append(out.Tasks, *t)
	if i := world.findInstance(t.Instance); i != nil {
		out.Instances = append(out.Instances, *i)
	}
	if r.Kind.Name == Unhealthy {
		return c.call(ctx, http.MethodPost, "tasks/"+t.ID+"/health", map[string]any{"healthy": false}, nil)
	}
	out.ExitCode = &r.ExitCode
	return c.call(ctx, http.MethodPost, "tasks/"+t.ECS+"/exit", map[string]any{"exitCode": r.ExitCode}, nil)
}

// chooseTask returns the task that has run the longest among those allowed. For [Unhealthy], tasks
// with a health check come first.
func chooseTask(r Request, world *World) (*Task, error) {
	allowed := map[string]bool{}
	for _, id := range r.Among {
		allowed[cluster.LastPart(id)] = true
	}
	var chosen *Task
	for n := range world.Tasks {
		t := &world.Tasks[n]
		if r.Among != nil && !allowed[t.ID] || t.Failing {
			continue
		}
		if chosen == nil || r.Kind.Name == Unhealthy && t.Checked && !chosen.Checked {
			chosen = t
		}
	}
	if chosen == nil {
		return nil, fmt.Errorf("%s: no such task runs in cluster %s", r.Kind.Name, r.Cluster)
	}
	return chosen, nil
}

func (c *Client) breakZone(ctx context.Context, r Request, world *World, out *Result) error {
	if out.Zone = r.Target; out.Zone == "" {
		if out.Zone = world.busiestZone(); out.Zone == "" {
			return fmt.Errorf("%s: cluster %s has no machines", r.Kind.Name, r.Cluster)
		}
	}
	zones := map[string]bool{}
	for _, i := range world.Instances {
		if zones[i.Zone] = true; i.Zone == out.Zone {
			out.Instances = append(out.Instances, i)
		}
	}
	if len(out.Instances) == 0 {
		return fmt.Errorf("%s: cluster %s has no machine in zone %s; it has machines in: %s%s", r.Kind.Name, r.Cluster,
			out.Zone, strings.Join(slices.Sorted(maps.Keys(zones)), ", "),
			choice.DidYouMean(out.Zone, slices.Collect(maps.Keys(zones))))
	}
	return c.call(ctx, http.MethodPost, "zones/"+url.PathEscape(out.Zone)+"/out",
		map[string]any{"cluster": r.Cluster}, nil)
}

// heal repairs the instance or the task named, or all of the cluster.
func (c *Client) heal(ctx context.Context, r Request, world *World, out *Result) error {
	instance, task := world.findInstance(r.Target), world.findTask(r.Target)
	if r.Target != "" && instance == nil && task == nil {
		return fmt.Errorf("%s: %s is neither an instance nor a running task of cluster %s%s", r.Kind.Name, r.Target,
			r.Cluster, suggest(r.Target, append(world.names(InstanceSubject), world.names(TaskSubject)...)))
	}
	var failed []error
	for n := range world.Instances {
		i := &world.Instances[n]
		if r.Target != "" && i != instance || i.State == ecs.MachineRunning && i.StartDelay == 0 {
			continue
		}
		out.Instances = append(out.Instances, *i)
		failed = append(failed, c.healInstance(ctx, i))
	}
	for n := range world.Tasks {
		if t := &world.Tasks[n]; t.Failing && (r.Target == "" || t == task) {
			out.Tasks = append(out.Tasks, *t)
			failed = append(failed,
				c.call(ctx, http.MethodPost, "tasks/"+t.ECS+"/health", map[string]any{"healthy": true}, nil))
		}
	}
	return errors.Join(failed...)
}

func (c *Client) healInstance(ctx context.Context, i *Instance) error {
	if i.StartDelay > 0 {
		if err := c.call(ctx, http.MethodPost, "instances/"+i.ID+"/slow", map[string]any{"seconds": 0},
			nil); err != nil {
			return err
		}
	}
	if i.State == ecs.MachineRunning {
		return nil
	}
	return c.call(ctx, http.MethodPost, "instances/"+i.ID+"/reconnect", map[string]any{}, nil)
}

// maxAnswer bounds how much of an answer is read.
const maxAnswer = 64 << 20

// call makes one call and reads the answer into out, unless that is nil.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+prefix+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if c.Sign != nil {
		if err := c.Sign(ctx, r, body); err != nil {
			return err
		}
	}
	resp, err := c.HTTP.Do(r)
	var refused *net.OpError
	switch {
	case errors.As(err, &refused) && refused.Op == "dial":
		return fmt.Errorf("no fleet answers at %s (%w); start `berth up`, or give another --fleet", c.URL, refused.Err)
	case err != nil:
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("reading the fleet's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		var refusal struct{ Error, Message string }
		if json.Unmarshal(answer, &refusal) == nil && refusal.Error+refusal.Message != "" {
			return errors.New(refusal.Error + refusal.Message)
		}
		return fmt.Errorf("%s is no simulated AWS: it answers with status %d", c.URL, resp.StatusCode)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}
