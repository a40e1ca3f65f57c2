package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"berth/cmd/berth/listing"
	"berth/cmd/berth/problem"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// API calls operations of Berth's API. Its client is one.
type API interface {
	CallECS(ctx context.Context, op string, in, out any) error
	CallBerth(ctx context.Context, op string, in, out any) error
}

// change is one change of a cluster that a page offers. It is made by one call of the API.
type change struct {
	Title, Effect string
	// Command does the same on a command line.
	Command string
	Button  string
	// Back is the page that shows what came of it.
	Back  string
	own   bool // the operation is one of Berth's own
	op    string
	input map[string]any
}

// changes are what pages offer, by the last part of the address that asks about one. Each is about
// one thing of the cluster, which it is given by name.
var changes = map[string]func(c *Console, r *http.Request, v *view, of string) (*change, error){
	"drain": func(_ *Console, _ *http.Request, v *view, of string) (*change,
		error) {
		return setDraining(v, of)
	},
	"activate": func(_ *Console, _ *http.Request, v *view, of string) (*change,
		error) {
		return setActive(v, of)
	},
	"stop-task": func(_ *Console, _ *http.Request, v *view, of string) (*change,
		error) {
		return stopTask(v, of)
	},
	"redeploy": func(_ *Console, _ *http.Request, v *view, of string) (*change,
		error) {
		return redeploy(v, of)
	},
	"stop-deployment": (*Console).stopDeployment,
	"rebalance":       func(_ *Console, _ *http.Request, v *view, _ string) (*change, error) { return makeMoves(v) },
}

// command returns a command line, with each argument quoted.
func command(program string, arguments ...string) string {
	for _, a := range arguments {
		program += " " + problem.QuoteArgument(a)
	}
	return program
}

// awsCommand returns a command of the AWS CLI for the cluster of the page.
func awsCommand(v *view, verb string, arguments ...string) string {
	return command("aws ecs "+verb, append([]string{"--cluster", v.Cluster}, arguments...)...)
}

func setDraining(v *view, id string) (*change, error) {
	out, err := setInstanceStatus(v, id, cluster.InstanceDraining)
	if err != nil {
		return nil, err
	}
	out.Title, out.Button = "Drain instance "+listing.ShortID(id), "Drain the instance"
	out.Effect = "It takes no new tasks." + effectOnTasks(v.Snapshot.Instances[id])
	return out, nil
}

// effectOnTasks says what happens to the tasks of an instance that is drained.
func effectOnTasks(at *snapshot.InstanceView) (text string) {
	ofServices, standalone := 0, 0
	for _, t := range at.Tasks {
		if t.Service != "" {
			ofServices++
		} else {
			standalone++
		}
	}
	switch {
	case ofServices == 1:
		text = " Its 1 task of a service moves to another instance, within the percentages of the service."
	case ofServices > 1:
		text = fmt.Sprintf(" Its %d tasks of services move to other instances, within the percentages of their "+
			"services.", ofServices)
	}
	switch {
	case standalone == 1:
		text += " Its 1 standalone task stays until it ends."
	case standalone > 1:
		text += fmt.Sprintf(" Its %d standalone tasks stay until they end.", standalone)
	}
	return text
}

func setActive(v *view, id string) (*change, error) {
	out, err := setInstanceStatus(v, id, cluster.InstanceActive)
	if err != nil {
		return nil, err
	}
	out.Title, out.Button = "Return instance "+listing.ShortID(id)+" to service", "Return it to service"
	out.Effect = "It takes new tasks again. Tasks that have left it stay where they are."
	return out, nil
}

func setInstanceStatus(v *view, id string, status cluster.InstanceStatus) (*change, error) {
	if at := v.Snapshot.Instances[id]; at == nil || at.Instance == nil {
		return nil, &whatif.NotFound{Kind: "instance", Name: id, Known: slices.Collect(maps.Keys(v.Snapshot.Instances))}
	}
	return &change{op: "UpdateContainerInstancesState",
		input: map[string]any{"cluster": v.Cluster, "containerInstances": []string{id}, "status": string(status)},
		Command: awsCommand(v, "update-container-instances-state", "--container-instances", id, "--status",
			string(status)),
		Back: v.Here("/console/instance/" + url.PathEscape(id))}, nil
}

// stopReason is the reason of tasks that a person stops on a page.
const stopReason = "Stopped in Berth's console"

func stopTask(v *view, id string) (*change, error) {
	answer, err := whatif.ExplainTask(v.Snapshot, id)
	if err != nil {
		return nil, err
	}
	out := &change{Title: "Stop task " + listing.ShortID(answer.Task), Button: "Stop the task", op: "StopTask",
		Effect:  "It is a standalone task: none is started in its place.",
		input:   map[string]any{"cluster": v.Cluster, "task": answer.Task, "reason": stopReason},
		Command: awsCommand(v, "stop-task", "--task", answer.Task, "--reason", stopReason),
		Back:    v.Here("/console/task/" + url.PathEscape(answer.Task))}
	if answer.Service != "" {
		out.Effect = "Service " + answer.Service + " starts another one in its place, if it still wants it."
	}
	return out, nil
}

// deployError says why a service cannot be deployed again; nil if it can.
func deployError(s *cluster.Service) error {
	switch {
	case s.Status != cluster.ServiceActive:
		return cluster.Errorf(cluster.CodeServiceNotActive, "Service %s is %s.", s.Name, s.Status)
	case s.HasTaskSets():
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"Service %s has the deployment controller EXTERNAL: create a task set to deploy it.", s.Name)
	}
	return nil
}

func redeploy(v *view, name string) (*change, error) {
	s, err := findService(v, name)
	if err == nil {
		err = deployError(s)
	}
	if err != nil {
		return nil, err
	}
	least, most := s.TaskBounds(s.Desired)
	return &change{Title: "Deploy service " + name + " again", Button: "Start the deployment", op: "UpdateService",
		Effect: fmt.Sprintf("All its tasks are replaced by new ones of %s, with at least %d healthy and at most %d "+
			"at a time.", s.Deployment.TaskDefinition, least, most),
		input:   map[string]any{"cluster": v.Cluster, "service": name, "forceNewDeployment": true},
		Command: awsCommand(v, "update-service", "--service", name, "--force-new-deployment"),
		Back:    v.Here("/console/service/" + url.PathEscape(name))}, nil
}

// stopDeployment returns a service to its last completed deployment. The API says which deployment
// is in progress: a page has no ARN.
func (c *Console) stopDeployment(r *http.Request, v *view, name string) (*change, error) {
	if _, err := findService(v, name); err != nil {
		return nil, err
	}
	var found struct {
		Services []struct {
			Deployment string `json:"currentServiceDeployment"`
		} `json:"services"`
	}
	asked := map[string]any{"cluster": v.Cluster, "services": []string{name}}
	if err := c.API.CallECS(r.Context(), "DescribeServices", asked, &found); err != nil {
		return nil, err
	}
	if len(found.Services) == 0 || found.Services[0].Deployment == "" {
		return nil, cluster.Errorf(cluster.CodeDeploymentNotFound, "Service %s has no deployment.", name)
	}
	arn := found.Services[0].Deployment
	return &change{Title: "Stop the deployment of service " + name, Button: "Stop the deployment and roll back",
		Effect: "The service returns to its last completed deployment: tasks of that revision replace those of the " +
			"new one.",
		op:    "StopServiceDeployment",
		input: map[string]any{"serviceDeploymentArn": arn, "stopType": string(cluster.StopRollback)},
		Command: command("aws ecs stop-service-deployment", "--service-deployment-arn", arn, "--stop-type",
			string(cluster.StopRollback)),
		Back: v.Here("/console/service/" + url.PathEscape(name))}, nil
}

func makeMoves(v *view) (*change, error) {
	return &change{Title: "Balance cluster " + v.Cluster, Button: "Have Berth make the moves", op: "RebalanceCluster",
		Effect: "Berth plans anew each time that it looks, and moves tasks until no move is worth it, within the " +
			"limits of the cluster's configuration.",
		own: true, input: map[string]any{"cluster": v.Cluster},
		Command: command("berth rebalance", "--apply", "--no-wait", "--cluster", v.Cluster),
		Back:    v.Here("/console/rebalancing")}, nil
}

func findService(v *view, name string) (*cluster.Service, error) {
	s := v.Snapshot.Services[name]
	if s == nil {
		return nil, &whatif.NotFound{Kind: "service", Name: name,
			Known: slices.Collect(maps.Keys(v.Snapshot.Services))}
	}
	return s, nil
}

// showChange asks before a change is made: what it does, and the command that does the same.
func (c *Console) showChange(r *http.Request, v *view) error {
	found, err := c.readChange(r, v)
	if err != nil {
		return err
	}
	v.Title, v.Still, v.Body = found.Title, true, found
	return nil
}

// readChange returns the change that the address names.
func (c *Console) readChange(r *http.Request, v *view) (*change, error) {
	if !v.MayChange {
		return nil, errReadOnly
	}
	find := changes[r.PathValue("kind")]
	if find == nil {
		return nil, &whatif.NotFound{Kind: "change", Name: r.PathValue("kind"),
			Known: slices.Collect(maps.Keys(changes))}
	}
	return find(c, r, v, v.Given("of"))
}

var (
	errReadOnly = cluster.Errorf(cluster.CodeAccessDenied, "This console only reads: its caller has no right to write.")
	errForeign  = cluster.Errorf(cluster.CodeAccessDenied,
		"This change was not asked for by a page of this console. Open the page again, and ask there.")
)

// maxForm is how many bytes a form may have. The only field is the token.
const maxForm = 4096

// makeChange makes a change that a page of this console has asked about. A page of another origin
// cannot know the token; most browsers say where it comes from, too.
func (c *Console) makeChange(w http.ResponseWriter, r *http.Request) {
	v := c.newView("change", r)
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	var found *change
	err := r.ParseForm()
	if from := r.Header.Get("Sec-Fetch-Site"); err != nil || from != "" && from != "same-origin" ||
		!equalSecrets(r.PostForm.Get("token"), c.formToken) {
		err = errForeign
	}
	if err == nil {
		err = c.fill(r, v, func(r *http.Request, v *view) (err error) {
			found, err = c.readChange(r, v)
			return err
		})
	}
	if err == nil {
		call := c.API.CallECS
		if found.own {
			call = c.API.CallBerth
		}
		err = call(r.Context(), found.op, found.input, nil)
	}
	if err != nil {
		c.write(w, r, v, err)
		return
	}
	if source, ok := c.Source.(interface{ Expire(clusterName string) }); ok {
		source.Expire(v.Cluster)
	}
	http.Redirect(w, r, found.Back, http.StatusSeeOther)
}

// rights remembers whether the console's caller may write.
type rights struct {
	mu       sync.Mutex
	mayWrite bool
	askedAt  time.Time
}

// How long an answer about rights holds, and how long without one.
const (
	rightsHold  = time.Minute
	rightsRetry = 5 * time.Second
	rightsWait  = 2 * time.Second
)

// mayWrite reports whether the API lets the console's caller change something. It asks for the stop
// of no task: a caller without the right is refused before the request is looked at.
func (c *Console) mayWrite(ctx context.Context) bool {
	if c.API == nil {
		return false
	}
	c.rights.mu.Lock()
	defer c.rights.mu.Unlock()
	if time.Since(c.rights.askedAt) < rightsHold {
		return c.rights.mayWrite
	}
	ctx, cancel := context.WithTimeout(ctx, rightsWait)
	defer cancel()
	err := c.API.CallECS(ctx, "StopTask", map[string]any{"cluster": c.Cluster, "task": ""}, nil)
	c.rights.mayWrite, c.rights.askedAt = false, time.Now()
	switch cluster.ErrorCode(err) {
	case cluster.CodeInvalidParameter, cluster.CodeClient, cluster.CodeClusterNotFound:
		c.rights.mayWrite = true
	case cluster.CodeServer, cluster.CodeThrottling: // no answer of the API
		c.rights.askedAt = time.Now().Add(rightsRetry - rightsHold)
	}
	return c.rights.mayWrite
}

// statusOf returns the HTTP status of a page that says what went wrong.
func statusOf(err error) int {
	var missing *whatif.NotFound
	switch code := cluster.ErrorCode(err); {
	case errors.As(err, &missing):
		return http.StatusNotFound
	case code == cluster.CodeAccessDenied:
		return http.StatusForbidden
	case cmp.Or(code, cluster.CodeServer) != cluster.CodeServer:
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}
