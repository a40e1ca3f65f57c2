package console

import (
	"cmp"
	"embed"
	"html/template"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/cmd/berth/listing"
	"berth/cmd/berth/problem"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/snapshot"
)

//go:embed page/*.html
var pageFiles embed.FS

// pages are the templates. Those of the pages are named after them.
var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"short": listing.ShortID, "age": listing.Age, "time": formatTime, "tone": toneClass, "address": address,
	"dict":    pairs,
	"next":    func(n int) int { return n + 1 },
	"count":   whatif.CountNoun,
	"percent": func(a listing.Amount) int { return int(a.Share()*100 + 0.5) },
}).ParseFS(pageFiles, "page/*.html"))

// pairs makes what a template passes on to another: names with values.
func pairs(of ...any) map[string]any {
	out := map[string]any{}
	for i := 0; i+1 < len(of); i += 2 {
		out[of[i].(string)] = of[i+1]
	}
	return out
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// toneClass returns the CSS class of a state.
func toneClass(state string) string {
	switch listing.StateTone(state) {
	case listing.Good:
		return "good"
	case listing.Changing:
		return "changing"
	case listing.Wrong:
		return "wrong"
	}
	return "plain"
}

// view is what a template shows.
type view struct {
	*World
	Page     string
	Query    url.Values
	Clusters []string
	Cluster  string // shadows the world's, which a fault has not
	Summary  string
	Wrong    int // problems
	Now      time.Time
	Fault    string
	// Generation is that of the world shown.
	Generation string

	Title string
	Body  any // of the page
	Pages pager
	// Still keeps the page as it is when the cluster changes.
	Still bool
	// MayChange is set if the console's caller may change the cluster. FormToken is in each form
	// that does.
	MayChange bool
	FormToken string
}

// Here returns the address of a page of this cluster.
func (v *view) Here(path string, parameters ...string) string {
	return address(path, append([]string{"cluster", v.Cluster}, parameters...)...)
}

// Given returns a parameter of the address.
func (v *view) Given(name string) string { return v.Query.Get(name) }

// perPage is how many rows of a table a page shows.
const perPage = 100

// pager is which rows of a table a page shows.
type pager struct {
	From, To, Of   int
	Earlier, Later string // addresses, empty at the ends
}

// cut returns the rows of the page that the address asks for, and remembers which they are.
func cut[T any](v *view, path string, items []T) []T {
	n, _ := strconv.Atoi(v.Given("page"))
	last := max(0, (len(items)-1)/perPage)
	n = min(max(n, 0), last)
	from, to := n*perPage, min(len(items), (n+1)*perPage)
	v.Pages = pager{From: min(from+1, to), To: to, Of: len(items)}
	at := func(n int) string {
		q := maps.Clone(v.Query)
		q.Set("page", strconv.Itoa(n))
		q.Set("cluster", v.Cluster)
		return path + "?" + q.Encode()
	}
	if n > 0 {
		v.Pages.Earlier = at(n - 1)
	}
	if n < last {
		v.Pages.Later = at(n + 1)
	}
	return items[from:to]
}

// matches reports whether one of the texts contains the words that the address asks for.
func (v *view) matches(texts ...string) bool {
	if !v.Query.Has("q") {
		return true
	}
	all := strings.ToLower(strings.Join(texts, " "))
	for _, word := range strings.Fields(strings.ToLower(v.Given("q"))) {
		if !strings.Contains(all, word) {
			return false
		}
	}
	return true
}

// shownProblem is a problem with its links.
type shownProblem struct {
	problem.Problem
	Number int
	Lasts  string
	Link   string // the page of what it is about; empty for none
}

// maxProblems is how many problems the first page shows.
const maxProblems = 50

func (c *Console) showProblems(_ *http.Request, v *view) error {
	v.Title = "What is wrong"
	var out []shownProblem
	all := slices.DeleteFunc(slices.Clone(v.Report.Problems), func(p problem.Problem) bool {
		return !v.matches(string(p.Kind), p.Name, p.What, p.Why)
	})
	for n, p := range all[:min(len(all), maxProblems)] {
		link := map[string]string{"service": "/console/service/", "task": "/console/task/",
			"instance": "/console/instance/"}[p.Type]
		if link != "" {
			link = v.Here(link + url.PathEscape(p.Name))
		} else if p.Type != "queue" {
			link = v.Here("/console/capacity")
		}
		out = append(out, shownProblem{p, n + 1, p.Lasts(v.World.Now), link})
	}
	v.Body = map[string]any{"Problems": out, "More": len(all) - len(out), "Unread": v.Report.Unread,
		"Instances": v.Report.Instances, "Services": v.Report.Services, "Tasks": v.Report.Tasks}
	return nil
}

func showServices(_ *http.Request, v *view) error {
	v.Title = "Services"
	items := slices.DeleteFunc(listing.Services(v.Snapshot, v.World.Now), func(s listing.Service) bool {
		return !v.matches(s.Name, s.State, s.Definition, s.Strategy)
	})
	slices.SortStableFunc(items, func(a, b listing.Service) int {
		return cmp.Compare(toneRank(b.State), toneRank(a.State))
	})
	v.Body = cut(v, "/console/services", items)
	return nil
}

// toneRank orders states: what is wrong comes first.
func toneRank(state string) int {
	return map[listing.Tone]int{listing.Wrong: 3, listing.Changing: 2, listing.Good: 1}[listing.StateTone(state)]
}

// deployment is one revision of a service on its page.
type deployment struct {
	ID, Kind, Definition, State, Reason string
	Healthy, Running, Pending, Failed   int
	CreatedAt                           time.Time
}

func showService(r *http.Request, v *view) error {
	name := r.PathValue("name")
	v.Title = "Service " + name
	s, err := findService(v, name)
	if err != nil {
		return err
	}
	item := listing.NewService(v.Snapshot, s, v.World.Now)
	var deployments []deployment
	for n, d := range slices.Concat([]cluster.Deployment{s.Deployment}, s.Older) {
		kind := "PRIMARY"
		if n > 0 {
			kind = "ACTIVE"
		}
		deployments = append(deployments, deployment{ID: d.IDDigits(), Kind: kind, Definition: d.TaskDefinition,
			State: string(cmp.Or(d.State, cluster.RolloutInProgress)), Reason: d.Reason, Healthy: d.Healthy,
			Running: d.Running, Pending: d.Pending, Failed: d.Failed, CreatedAt: d.CreatedAt})
	}
	least, most := s.TaskBounds(s.Desired)
	tasks := listing.Tasks(v.Snapshot, func(t *cluster.Task) bool { return t.Service == name })
	slices.SortStableFunc(tasks, func(a, b listing.Task) int { return cmp.Compare(taskRank(a), taskRank(b)) })
	events, err := eventsOf(r, v, name)
	if err != nil {
		return err
	}
	text := ""
	if answer, err := whatif.ExplainService(v.Snapshot, v.Capacity, name, v.World.Now); err == nil {
		text = printed(answer.Print)
	}
	v.Body = map[string]any{"Service": item, "Deployments": deployments, "Least": least, "Most": most,
		"Min": s.MinHealthy, "Max": s.MaxPercent, "Deploying": isDeploying(s), "Deployable": deployError(s) == nil,
		"Problems": problemsOf(v, "service", name),
		"Timeline": newTimeline(v, s), "Explained": text, "Events": events[:min(len(events), shownEvents)],
		"Tasks": cut(v, r.URL.Path, tasks)}
	return nil
}

// isDeploying reports whether the service has a deployment that can be stopped.
func isDeploying(s *cluster.Service) bool {
	return s.Release != nil && s.Release.Stop == "" && (s.Release.Status == cluster.DeploymentPending ||
		s.Release.Status == cluster.DeploymentInProgress)
}

// shownEvents is how many events a service's page shows.
const shownEvents = 20

// taskRank orders tasks: unhealthy and starting ones first, stopped ones last.
func taskRank(t listing.Task) int {
	switch {
	case t.Status == "STOPPED":
		return 3
	case t.Health == "unhealthy":
		return 0
	case t.Status != "RUNNING":
		return 1
	}
	return 2
}

// problemsOf returns the problems of one thing.
func problemsOf(v *view, kind, name string) (out []problem.Problem) {
	for _, p := range v.Report.Problems {
		if p.Type == kind && p.Name == name {
			out = append(out, p)
		}
	}
	return out
}

// printed returns what an answer prints for people.
func printed(write func(io.Writer) error) string {
	var out strings.Builder
	_ = write(&out) // a builder never fails
	return out.String()
}

func showTasks(_ *http.Request, v *view) error {
	v.Title = "Tasks"
	stopped, filtered := v.Given("stopped") != "", v.Query.Has("q")
	keep := func(t *cluster.Task) bool {
		return (stopped || !t.HasEnded()) &&
			(!filtered || v.matches(t.ID, t.Service, t.TaskDefinition, string(t.Status()), t.Instance, t.Reason))
	}
	found, ends := make([]*cluster.Task, 0, v.Snapshot.TaskCount()), []int{0}
	add := func(tasks []*cluster.Task) {
		for _, t := range tasks {
			if keep(t) {
				found = append(found, t)
			}
		}
		ends = append(ends, len(found))
	}
	add(tasksWithoutService(v.Snapshot))
	for _, name := range slices.Sorted(maps.Keys(v.Snapshot.Services)) {
		add(v.Snapshot.TasksOf(v.Snapshot.Services[name].Short))
	}
	// There may be very many, so only the services on the page are sorted, and only its tasks
	// described.
	shown := cut(v, "/console/tasks", found)
	for k := range len(ends) - 1 {
		if from, to := ends[k], ends[k+1]; to >= v.Pages.From && from < v.Pages.To {
			slices.SortFunc(found[from:to], func(a, b *cluster.Task) int { return strings.Compare(a.ID, b.ID) })
		}
	}
	var items []listing.Task
	for _, t := range shown {
		items = append(items, listing.NewTask(v.Snapshot, t))
	}
	v.Body = items
	return nil
}

// tasksWithoutService returns the tasks that belong to none of the cluster's services.
func tasksWithoutService(snap *snapshot.Snapshot) (out []*cluster.Task) {
	others := snap.TaskCount()
	owners := make(map[string]bool, len(snap.Services))
	for _, s := range snap.Services {
		others -= len(snap.TasksOf(s.Short))
		owners[s.Short] = true
	}
	if others == 0 {
		return nil // as a rule; looking at each task takes longer
	}
	for t := range snap.Tasks() {
		if !owners[t.Owner] {
			out = append(out, t)
		}
	}
	return out
}

func showTask(r *http.Request, v *view) error {
	id := r.PathValue("id")
	answer, err := whatif.ExplainTask(v.Snapshot, id)
	if err != nil {
		return err
	}
	v.Title = "Task " + listing.ShortID(answer.Task)
	var item listing.Task
	for t := range v.Snapshot.Tasks() {
		if t.ID == answer.Task {
			item = listing.NewTask(v.Snapshot, t)
		}
	}
	v.Body = map[string]any{"Task": item, "CanStop": v.MayChange && !answer.Foreign && item.Desired == "RUNNING" &&
		item.Status != "STOPPED", "Problems": problemsOf(v, "task", answer.Task),
		"Explained": printed(answer.Print)}
	return nil
}

func (c *Console) showInstance(r *http.Request, v *view) error {
	answer, err := whatif.ExplainInstance(v.Snapshot, v.Capacity, r.PathValue("id"), v.World.Now)
	if err != nil {
		return err
	}
	v.Title = "Instance " + listing.ShortID(cmp.Or(answer.Instance, answer.EC2))
	body := map[string]any{"Problems": problemsOf(v, "instance", answer.Instance), "Explained": printed(answer.Print)}
	if at := v.Snapshot.Instances[answer.Instance]; at != nil && at.Instance != nil {
		body["Instance"] = listing.NewInstance(v.Snapshot, at)
		body["Tasks"] = cut(v, r.URL.Path, listing.Tasks(v.Snapshot, func(t *cluster.Task) bool {
			return t.Instance == answer.Instance && t.HoldsCapacity()
		}))
	}
	v.Body = body
	return nil
}

// shownProvider is a capacity provider on the page of capacity.
type shownProvider struct {
	Name, Group, Why               string
	Desired, Min, Max              int
	Needed, Running, Target, Drain int
	Stay                           []string
}

// maxVerdicts is how many instances of a group the page says why they stay.
const maxVerdicts = 20

func (c *Console) showCapacity(_ *http.Request, v *view) error {
	v.Title = "Capacity"
	var providers []shownProvider
	var updates []shownUpdate
	if k := v.Capacity; k != nil {
		for _, name := range slices.Sorted(maps.Keys(k.Providers)) {
			p := k.Providers[name]
			out := shownProvider{Name: name, Group: p.Group, Why: p.GroupProblem, Target: p.Scaling.Target}
			if g := k.Groups[p.Group]; g != nil && !p.HasFailedCreation() {
				d := k.DecideScaling(v.Snapshot, p, v.World.Now)
				out.Desired, out.Min, out.Max, out.Needed, out.Running = g.Desired, g.Min, g.Max, d.Needed, d.Running
				out.Why, out.Drain = d.Why, len(d.Drain)
				for _, verdict := range d.Verdicts[:min(len(d.Verdicts), maxVerdicts)] {
					out.Stay = append(out.Stay, verdict.EC2InstanceID+": "+verdict.Why)
				}
			}
			providers = append(providers, out)
		}
		for _, name := range slices.Sorted(maps.Keys(k.NodeGroups)) {
			updates = append(updates, newShownUpdate(v, k.NodeGroups[name]))
		}
	}
	v.Body = map[string]any{"Providers": providers, "Updates": updates, "Known": v.Capacity != nil}
	return nil
}

// eventsOf returns the events of a service, or of all, the newest first.
func eventsOf(r *http.Request, v *view, service string) ([]listing.Event, error) {
	events, err := v.Events(r.Context(), service)
	slices.Reverse(events)
	return events, err
}

func showEvents(r *http.Request, v *view) error {
	v.Title = "Events"
	if name := v.Given("service"); name != "" {
		if _, err := findService(v, name); err != nil {
			v.Body = map[string]any{"Wrong": err.Error()}
			return nil
		}
	}
	events, err := eventsOf(r, v, v.Given("service"))
	if err != nil {
		return err
	}
	events = slices.DeleteFunc(events, func(e listing.Event) bool { return !v.matches(e.Service, e.Message) })
	v.Body = map[string]any{"Items": cut(v, "/console/events", events)}
	return nil
}
