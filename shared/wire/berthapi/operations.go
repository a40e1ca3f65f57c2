package berthapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/input"
)

// Configurations reads and replaces the placement configurations of clusters.
type Configurations interface {
	// ClusterConfiguration returns the zero value if none was set.
	ClusterConfiguration(ctx context.Context, clusterName string) (*cluster.Configuration, error)
	// PutConfiguration replaces the configuration as a whole: if c has a Rev, only the one whose Rev is
	// one less.
	PutConfiguration(ctx context.Context, c *cluster.Configuration) error
}

// Balances balances clusters on request.
type Balances interface {
	// RequestBalance makes placement look at the cluster's balance until no move is worth it.
	RequestBalance(ctx context.Context, clusterName string) error
}

// ServiceRules reads and changes what applies to a service's tasks beyond the ECS API.
type ServiceRules interface {
	DescribeServices(ctx context.Context, clusterName string, names []string) ([]*operation.ServiceDetail,
		[]cluster.Failure, error)
	// UpdateRules sets the rules that the tags stand for; the tags themselves are not set.
	UpdateRules(ctx context.Context, clusterName, service string, tags map[string]string) (*operation.ServiceDetail,
		error)
	// ServiceThrottle returns a nil throttle if nothing is slowed down.
	ServiceThrottle(ctx context.Context, clusterName, name string) (*cluster.Service, *cluster.Throttle, error)
}

// Loads takes the loads that tasks report.
type Loads interface {
	// ReportLoads returns a failure for each task that does not exist.
	ReportLoads(ctx context.Context, clusterName string, reports []cluster.LoadReport) ([]cluster.Failure, error)
}

// Rows shows what is stored.
type Rows interface {
	// ListRows returns a page of the rows that placement decides on, ordered by sort key; more
	// reports whether there is another page.
	ListRows(ctx context.Context, clusterName, after string) (rows []state.Row, more bool, err error)
	// CapacityRows returns the rows of what the cluster's instances come from.
	CapacityRows(ctx context.Context, clusterName string) (rows []state.Row, err error)
	// Generation returns what changes whenever placement has seen a change of the cluster. It is cheap.
	Generation(ctx context.Context, clusterName string) (string, error)
	// Now returns the time of the scheduler's clock, which may run faster than the caller's.
	Now() time.Time
	// DisconnectTimeout returns how long an agent may be disconnected before its tasks are replaced
	// elsewhere (S11).
	DisconnectTimeout() time.Duration
}

// UpdatePlans says what an update of a node group would do.
type UpdatePlans interface {
	// UpdateNodeGroupVersion is called with DryRun only.
	UpdateNodeGroupVersion(ctx context.Context, change operation.UpdateNodeGroupVersion) (*cluster.Update, error)
}

// Resources are the interfaces through which the operations reach the scheduler. Names are plain,
// never ARNs; errors of the API are [cluster.Error].
type Resources struct {
	Configurations Configurations
	Balances       Balances
	Services       ServiceRules
	Loads          Loads
	Rows           Rows
	// DeadLetters lists the dead-letter queues that have messages. It is nil where queues are AWS's:
	// there callers ask SQS.
	DeadLetters func(ctx context.Context) ([]operation.DeadLetters, error)
}

// A server implements the operations.
type server struct {
	input.References
	Resources
	plans UpdatePlans
}

// Operations are the operations of Berth's own, by the whole value of the header X-Amz-Target.
// Plans may be nil: then PlanNodegroupUpdate is not served.
func Operations(account cluster.Account, r Resources, plans UpdatePlans) map[string]awsjson.Operation {
	s := &server{input.References{Account: account}, r, plans}
	out := map[string]awsjson.Operation{
		"DescribeClusterConfiguration": awsjson.StrictOperation(s.describeConfiguration),
		"PutClusterConfiguration":      awsjson.StrictOperation(s.putConfiguration),
		"RebalanceCluster":             awsjson.StrictOperation(s.rebalanceCluster),
		"DescribeServiceRules":         awsjson.StrictOperation(s.describeRules),
		"UpdateServiceRules":           awsjson.StrictOperation(s.updateRules),
		"DescribeServiceThrottle":      awsjson.StrictOperation(s.describeThrottle),
		"ReportLoad":                   awsjson.StrictOperation(s.reportLoad),
		"ListClusterRows":              awsjson.StrictOperation(s.listRows),
		"DescribeCapacity":             awsjson.StrictOperation(s.describeCapacity),
	}
	if plans != nil {
		out["PlanNodegroupUpdate"] = awsjson.StrictOperation(s.planUpdate)
	}
	served := map[string]awsjson.Operation{}
	for name, f := range out {
		served[awsjson.OwnTarget+name] = f
	}
	return served
}

// RulesInput sets parts of a service's rules. A member that is not given stays as it was; an empty
// one goes back to its default.
type RulesInput struct {
	Cluster      string         `json:"cluster"`
	Service      string         `json:"service"`
	DomainPolicy *string        `json:"domainPolicy,omitempty"`
	Constraint   *string        `json:"constraint,omitempty"`
	Metrics      *[]MetricInput `json:"metrics,omitempty"`
	MoveCost     *string        `json:"moveCost,omitempty"`
	Strategy     *string        `json:"strategy,omitempty"`
	Rebalancing  *string        `json:"rebalancing,omitempty"` // on or off
	Scaling      *string        `json:"scaling,omitempty"`     // as in the tag berth:scaling
	Tolerations  *string        `json:"tolerations,omitempty"` // as in the tag berth:tolerations
	Affinity     *string        `json:"affinity,omitempty"`    // the name of a service
	Application  *string        `json:"application,omitempty"` // the name of an application
}

// A MetricInput is a default load as Berth or Service Fabric describes it. Berth's tasks are
// stateless: of a primary and a secondary load the primary's counts, and the answer says so (P9).
type MetricInput struct {
	Metric
	PrimaryDefaultLoad   *int64 `json:"primaryDefaultLoad,omitempty"`
	SecondaryDefaultLoad *int64 `json:"secondaryDefaultLoad,omitempty"`
}

// parseMetric returns the metric, and a note if part of the input does not count.
func (m *MetricInput) parseMetric() (out cluster.Metric, note string, err error) {
	out = cluster.Metric{Name: m.Name, Load: m.Load, Weight: cluster.Weight(m.Weight)}
	switch {
	case m.PrimaryDefaultLoad == nil && m.SecondaryDefaultLoad == nil:
		return out, "", nil
	// A secondary load alone would leave the tasks without any.
	case m.PrimaryDefaultLoad == nil:
		return out, "",
			input.Invalid("Metric %.130s has a secondaryDefaultLoad alone, expected load or primaryDefaultLoad: "+
				"tasks have one load each.", m.Name)
	case m.Load != 0:
		return out, "", input.Invalid("Metric %.130s has load and primaryDefaultLoad, expected one of them.", m.Name)
	}
	out.Load = *m.PrimaryDefaultLoad
	if m.SecondaryDefaultLoad != nil {
		note = fmt.Sprintf("Metric %s: each task has the primary load, %d; the secondary load, %d, is left out.",
			m.Name, out.Load, *m.SecondaryDefaultLoad)
	}
	return out, note, nil
}

// A Metric is the default load of each task of a service. Weight is Zero, Low, Medium or High.
type Metric struct {
	Name   string `json:"name"`
	Load   int64  `json:"load"`
	Weight string `json:"weight,omitempty"`
}

// RulesOutput is what applies to a service's tasks beyond the ECS API, and why some of them have no
// instance.
type RulesOutput struct {
	Service      string     `json:"service"`
	DomainPolicy string     `json:"domainPolicy,omitempty"`
	Constraint   string     `json:"constraint,omitempty"`
	Metrics      []Metric   `json:"metrics,omitempty"`
	MoveCost     string     `json:"moveCost,omitempty"`
	Strategy     string     `json:"strategy,omitempty"`
	Rebalancing  string     `json:"rebalancing,omitempty"`
	Scaling      string     `json:"scaling,omitempty"`
	Tolerations  string     `json:"tolerations,omitempty"`
	Affinity     string     `json:"affinity,omitempty"`
	Application  string     `json:"application,omitempty"`
	Diagnosis    *Diagnosis `json:"diagnosis,omitempty"`
	// Notes says what of an update does not count.
	Notes []string `json:"notes,omitempty"`
}

// A Diagnosis is [cluster.Diagnosis] with readable names, and in words (P17).
type Diagnosis struct {
	Evaluated int         `json:"evaluated"`
	Feasible  int         `json:"feasible"`
	Unplaced  int         `json:"unplaced"`
	Rejected  []Rejection `json:"rejected"`
	Closest   string      `json:"closestInstance,omitempty"`
	Text      string      `json:"text"`
}

// A Rejection says how many instances one filter rejected, what was needed and the best that was
// free, in the filter's own unit.
type Rejection struct {
	Filter string  `json:"filter"`
	Count  int     `json:"count"`
	Need   float64 `json:"need,omitempty"`
	Best   float64 `json:"best,omitempty"`
	Detail string  `json:"detail,omitempty"`
}

// DiagnosisOf returns a diagnosis for callers; nil for nil.
func DiagnosisOf(d *cluster.Diagnosis) *Diagnosis {
	if d == nil {
		return nil
	}
	out := &Diagnosis{
		Evaluated: d.Evaluated, Feasible: d.Feasible, Unplaced: d.Unplaced, Rejected: []Rejection{}, Closest: d.Closest,
		Text: d.String(),
	}
	for _, r := range d.Rejected {
		out.Rejected = append(out.Rejected, Rejection{string(r.Filter), r.Count, r.Need, r.Best, r.Detail})
	}
	return out
}

// ServiceInput names a service, by name or ARN.
type ServiceInput struct {
	Cluster string `json:"cluster"`
	Service string `json:"service"`
}

func (s *server) describeRules(ctx context.Context, in *ServiceInput) (*RulesOutput, error) {
	clusterName, name, err := s.ReadService(&in.Cluster, &in.Service)
	if err != nil {
		return nil, err
	}
	found, _, err := s.Services.DescribeServices(ctx, clusterName, []string{name})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, cluster.Errorf(cluster.CodeServiceNotFound, "Service not found.")
	}
	return rulesOutput(found[0].Service), nil
}

func (s *server) updateRules(ctx context.Context, in *RulesInput) (*RulesOutput, error) {
	clusterName, name, err := s.ReadService(&in.Cluster, &in.Service)
	if err != nil {
		return nil, err
	}
	set, notes, err := in.changedTags()
	if err != nil {
		return nil, err
	}
	d, err := s.Services.UpdateRules(ctx, clusterName, name, set)
	if err != nil {
		return nil, err
	}
	out := rulesOutput(d.Service)
	out.Notes = notes
	return out, nil
}

// changedTags returns the members that were given as the tags that say the same (constraint becomes
// berth:constraint), and notes on what does not count. So rules have one parser, whether they come
// by tag or by this operation.
func (in *RulesInput) changedTags() (set map[string]string, notes []string, err error) {
	out := map[string]string{}
	for key, text := range map[string]*string{
		cluster.TagDomainPolicy: in.DomainPolicy, cluster.TagConstraint: in.Constraint,
		cluster.TagMoveCost: in.MoveCost, cluster.TagStrategy: in.Strategy, cluster.TagRebalancing: in.Rebalancing,
		cluster.TagScaling:     in.Scaling,
		cluster.TagTolerations: in.Tolerations, cluster.TagAffinity: in.Affinity,
		cluster.TagApplication: in.Application,
	} {
		if text != nil {
			out[key] = *text
		}
	}
	if in.Metrics == nil {
		return out, nil, nil
	}
	var metrics []cluster.Metric
	for _, m := range *in.Metrics {
		metric, note, err := m.parseMetric()
		if err != nil {
			return nil, nil, err
		}
		if metrics = append(metrics, metric); note != "" {
			notes = append(notes, note)
		}
	}
	out[cluster.TagMetrics] = cluster.MetricsText(metrics)
	return out, notes, cluster.CheckMetrics(metrics)
}

// rulesOutput returns a service's rules for callers.
func rulesOutput(v *cluster.Service) *RulesOutput {
	r := v.Rules
	out := &RulesOutput{
		Service: v.Name, DomainPolicy: string(r.DomainPolicy), Constraint: r.NodeConstraint,
		MoveCost: string(r.MoveCost), Strategy: r.Scoring, Rebalancing: string(r.Rebalancing),
		Tolerations: cluster.TolerationsText(r.Tolerations), Affinity: r.Affinity,
		Application: r.Application,
		Diagnosis:   DiagnosisOf(v.Blocked),
	}
	if r.Scaling != nil {
		out.Scaling = r.Scaling.String()
	}
	for _, m := range r.Metrics {
		out.Metrics = append(out.Metrics, Metric{Name: m.Name, Load: m.Load, Weight: string(m.Weight)})
	}
	return out
}

// ReportLoadInput has the current loads of up to 100 tasks (P10).
type ReportLoadInput struct {
	Cluster string               `json:"cluster"`
	Reports []cluster.LoadReport `json:"reports"`
}

// ReportLoadOutput lists the tasks that do not exist.
type ReportLoadOutput struct {
	Failures []Missing `json:"failures"`
}

// A Missing is something that was named and does not exist.
type Missing struct {
	ARN    string `json:"arn"`
	Reason string `json:"reason"`
}

func (s *server) reportLoad(ctx context.Context, in *ReportLoadInput) (*ReportLoadOutput, error) {
	clusterName, err := s.ClusterName(&in.Cluster)
	if err != nil {
		return nil, err
	}
	if err := input.CheckCount("reports", len(in.Reports), cluster.MaxReports); err != nil {
		return nil, err
	}
	reports := slices.Clone(in.Reports)
	for n := range reports {
		if reports[n].Task, err = s.TaskID(clusterName, reports[n].Task); err != nil {
			return nil, err
		}
	}
	missing, err := s.Loads.ReportLoads(ctx, clusterName, reports)
	if err != nil {
		return nil, err
	}
	out := &ReportLoadOutput{Failures: []Missing{}}
	for _, f := range missing {
		out.Failures = append(out.Failures, Missing{ARN: s.Account.ARN("task", clusterName, f.ARN), Reason: f.Reason})
	}
	return out, nil
}

// RowsInput asks for a page of the rows that placement decides on.
type RowsInput struct {
	Cluster   string `json:"cluster"`
	NextToken string `json:"nextToken,omitempty"`
}

// RowsOutput is one page of rows, without what containers were given.
type RowsOutput struct {
	Rows      []Row  `json:"rows"`
	NextToken string `json:"nextToken,omitempty"`
	// At is the time of the scheduler's clock.
	At time.Time `json:"at,omitzero"`
}

// A Row is one stored row: its sort key, whose prefix tells the kind, and its JSON.
type Row struct {
	Sort string          `json:"sort"`
	Row  json.RawMessage `json:"row"`
}

func (s *server) listRows(ctx context.Context, in *RowsInput) (*RowsOutput, error) {
	clusterName, err := s.ClusterName(&in.Cluster)
	if err != nil {
		return nil, err
	}
	list := "rows of " + clusterName
	from, err := input.PageStart(list, in.NextToken)
	if err != nil {
		return nil, err
	}
	rows, more, err := s.Resources.Rows.ListRows(ctx, clusterName, from)
	if err != nil {
		return nil, err
	}
	out := &RowsOutput{At: s.Resources.Rows.Now().UTC()}
	if out.Rows, err = encodeRows(rows); err != nil {
		return nil, err
	}
	if more {
		out.NextToken = input.PageToken(list, state.KeyOf(rows[len(rows)-1]).Sort)
	}
	return out, nil
}
