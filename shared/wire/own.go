package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"berth/shared/cluster"
	"berth/shared/state"
)

// ownTarget prefixes, in the header X-Amz-Target, the operations that ECS has no words for. They take and give plain
// JSON; a member that is not known is refused, as nobody but Berth could have meant it.
const ownTarget = "Berth_20261121."

// plain is an output of Berth's own shapes.
type plain struct{ value any }

// ownOp makes an [Operation] of a function on shapes of Berth's own.
func ownOp[I, O any](f func(context.Context, *I) (*O, error)) Operation {
	return func(ctx context.Context, body []byte) (any, error) {
		in := new(I)
		if err := decodeOwn(body, in); err != nil {
			return nil, err
		}
		out, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		return plain{out}, nil
	}
}

func decodeOwn(body []byte, in any) error {
	if body = bytes.TrimSpace(body); len(body) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(in)
	if _, more := d.Token(); err == nil && !errors.Is(more, io.EOF) {
		err = errors.New("more than one JSON value")
	}
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return cluster.Errorf(cluster.CodeSerialization, "%.200s: %.100s is no value of this member.", wrong.Field, wrong.Value)
	}
	return cluster.Errorf(cluster.CodeSerialization, "The request cannot be read: %.200s.", err.Error())
}

// ownOperations are the operations under [ownTarget], by the whole value of the header.
func (s *server) ownOperations(g NodeGroups) map[string]Operation {
	out := map[string]Operation{
		ownTarget + "DescribeClusterConfiguration": ownOp(s.describeConfiguration),
		ownTarget + "PutClusterConfiguration":      s.logged("PutClusterConfiguration", ownOp(s.putConfiguration)),
		ownTarget + "DescribeServiceRules":         ownOp(s.describeRules),
		ownTarget + "UpdateServiceRules":           s.logged("UpdateServiceRules", ownOp(s.updateRules)),
		ownTarget + "DescribeServiceThrottle":      ownOp(s.describeThrottle),
		ownTarget + "ReportLoad":                   ownOp(s.reportLoad),
		ownTarget + "ListClusterRows":              ownOp(s.listRows),
		ownTarget + "DescribeCapacity":             ownOp(s.describeCapacity),
	}
	if g != nil {
		out[ownTarget+"PlanNodegroupUpdate"] = ownOp((&eksServer{s.references, g}).planUpdate)
	}
	return out
}

// RulesInput sets parts of a service's rules; a member that is not given stays as it was, an empty one goes back to its
// default.
type RulesInput struct {
	Cluster      string         `json:"cluster"`
	Service      string         `json:"service"`
	DomainPolicy *string        `json:"domainPolicy,omitempty"`
	Constraint   *string        `json:"constraint,omitempty"`
	Metrics      *[]MetricInput `json:"metrics,omitempty"`
	MoveCost     *string        `json:"moveCost,omitempty"`
	Strategy     *string        `json:"strategy,omitempty"`
}

// MetricInput is a default load, as Berth or Service Fabric describes it. Berth's tasks are stateless: of a primary and a
// secondary load the primary's counts, and the answer says so (P9).
type MetricInput struct {
	Metric
	PrimaryDefaultLoad   *int64 `json:"primaryDefaultLoad,omitempty"`
	SecondaryDefaultLoad *int64 `json:"secondaryDefaultLoad,omitempty"`
}

// read is the metric that counts, and what of the input does not.
func (m *MetricInput) read() (out cluster.Metric, note string, err error) {
	out = cluster.Metric{Name: m.Name, Load: m.Load, Weight: cluster.Weight(m.Weight)}
	switch {
	case m.PrimaryDefaultLoad == nil && m.SecondaryDefaultLoad == nil:
		return out, "", nil
	case m.PrimaryDefaultLoad == nil:
		return out, "", invalid("Metric %.130s has a secondaryDefaultLoad alone, expected load or primaryDefaultLoad: tasks have one load each.", m.Name)
	case m.Load != 0:
		return out, "", invalid("Metric %.130s has load and primaryDefaultLoad, expected one of them.", m.Name)
	}
	out.Load = *m.PrimaryDefaultLoad
	if m.SecondaryDefaultLoad != nil {
		note = fmt.Sprintf("Metric %s: each task has the primary load, %d; the secondary load, %d, is left out.", m.Name, out.Load, *m.SecondaryDefaultLoad)
	}
	return out, note, nil
}

// Metric is a default load of each task of a service.
type Metric struct {
	Name   string `json:"name"`
	Load   int64  `json:"load"`
	Weight string `json:"weight,omitempty"`
}

// RulesOutput is what holds for a service's tasks beyond the ECS API, and why some of them have no instance.
type RulesOutput struct {
	Service      string     `json:"service"`
	DomainPolicy string     `json:"domainPolicy,omitempty"`
	Constraint   string     `json:"constraint,omitempty"`
	Metrics      []Metric   `json:"metrics,omitempty"`
	MoveCost     string     `json:"moveCost,omitempty"`
	Strategy     string     `json:"strategy,omitempty"`
	Diagnosis    *Diagnosis `json:"diagnosis,omitempty"`
	// Notes says what of an update does not count.
	Notes []string `json:"notes,omitempty"`
}

// Diagnosis is [cluster.Diagnosis] under names that read well, and in words.
type Diagnosis struct {
	Evaluated int         `json:"evaluated"`
	Feasible  int         `json:"feasible"`
	Unplaced  int         `json:"unplaced"`
	Rejected  []Rejection `json:"rejected"`
	Closest   string      `json:"closestInstance,omitempty"`
	Text      string      `json:"text"`
}

// Rejection is how many instances one filter removed, in the filter's own unit.
type Rejection struct {
	Filter string  `json:"filter"`
	Count  int     `json:"count"`
	Need   float64 `json:"need,omitempty"`
	Best   float64 `json:"best,omitempty"`
	Detail string  `json:"detail,omitempty"`
}

// DiagnosisOf is the diagnosis for callers; nil for nil.
func DiagnosisOf(d *cluster.Diagnosis) *Diagnosis {
	if d == nil {
		return nil
	}
	out := &Diagnosis{
		Evaluated: d.Evaluated, Feasible: d.Feasible, Unplaced: d.Unplaced, Rejected: []Rejection{}, Closest: d.Closest, Text: d.String(),
	}
	for _, r := range d.Rejected {
		out.Rejected = append(out.Rejected, Rejection{string(r.Filter), r.Count, r.Need, r.Best, r.Detail})
	}
	return out
}

// ServiceInput names a service.
type ServiceInput struct {
	Cluster string `json:"cluster"`
	Service string `json:"service"`
}

func (s *server) describeRules(ctx context.Context, in *ServiceInput) (*RulesOutput, error) {
	clusterName, name, err := s.serviceIn(&in.Cluster, &in.Service)
	if err != nil {
		return nil, err
	}
	found, _, err := s.scheduler.DescribeServices(ctx, clusterName, []string{name})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, cluster.Errorf(cluster.CodeServiceNotFound, "Service not found.")
	}
	return rulesOf(found[0].Service), nil
}

func (s *server) updateRules(ctx context.Context, in *RulesInput) (*RulesOutput, error) {
	clusterName, name, err := s.serviceIn(&in.Cluster, &in.Service)
	if err != nil {
		return nil, err
	}
	set, notes, err := in.tags()
	if err != nil {
		return nil, err
	}
	d, err := s.scheduler.UpdateRules(ctx, clusterName, name, set)
	if err != nil {
		return nil, err
	}
	out := rulesOf(d.Service)
	out.Notes = notes
	return out, nil
}

// tags are the members that were given, as the tags that say the same, and notes of what does not count.
func (in *RulesInput) tags() (set map[string]string, notes []string, err error) {
	out := map[string]string{}
	for key, text := range map[string]*string{
		cluster.TagDomainPolicy: in.DomainPolicy, cluster.TagConstraint: in.Constraint,
		cluster.TagMoveCost: in.MoveCost, cluster.TagStrategy: in.Strategy,
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
		metric, note, err := m.read()
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

func rulesOf(v *cluster.Service) *RulesOutput {
	r := v.Rules
	out := &RulesOutput{
		Service: v.Name, DomainPolicy: string(r.DomainPolicy), Constraint: r.NodeConstraint, MoveCost: string(r.MoveCost),
		Strategy: r.Scoring, Diagnosis: DiagnosisOf(v.Blocked),
	}
	for _, m := range r.Metrics {
		out.Metrics = append(out.Metrics, Metric{Name: m.Name, Load: m.Load, Weight: string(m.Weight)})
	}
	return out
}

// ReportLoadInput are the loads that tasks have now, at most 100 tasks a call (P10).
type ReportLoadInput struct {
	Cluster string               `json:"cluster"`
	Reports []cluster.LoadReport `json:"reports"`
}

// ReportLoadOutput lists the tasks that are not there.
type ReportLoadOutput struct {
	Failures []Missing `json:"failures"`
}

// Missing is one thing that was named and is not there.
type Missing struct {
	ARN    string `json:"arn"`
	Reason string `json:"reason"`
}

func (s *server) reportLoad(ctx context.Context, in *ReportLoadInput) (*ReportLoadOutput, error) {
	clusterName, err := s.cluster(&in.Cluster)
	if err != nil {
		return nil, err
	}
	if err := count("reports", len(in.Reports), cluster.MaxReports); err != nil {
		return nil, err
	}
	reports := slices.Clone(in.Reports)
	for n := range reports {
		if reports[n].Task, err = s.task(clusterName, reports[n].Task); err != nil {
			return nil, err
		}
	}
	missing, err := s.scheduler.ReportLoads(ctx, clusterName, reports)
	if err != nil {
		return nil, err
	}
	out := &ReportLoadOutput{Failures: []Missing{}}
	for _, f := range missing {
		out.Failures = append(out.Failures, Missing{ARN: s.account.ARN("task", clusterName, f.ARN), Reason: f.Reason})
	}
	return out, nil
}

// RowsInput asks for the rows that placement decides on, a page at a time.
type RowsInput struct {
	Cluster   string `json:"cluster"`
	NextToken string `json:"nextToken,omitempty"`
}

// RowsOutput is one page: each row as it is stored, without what containers were given.
type RowsOutput struct {
	Rows      []Row  `json:"rows"`
	NextToken string `json:"nextToken,omitempty"`
}

// Row is one row: its sort key, which tells the kind, and its JSON.
type Row struct {
	Sort string          `json:"sort"`
	Row  json.RawMessage `json:"row"`
}

func (s *server) listRows(ctx context.Context, in *RowsInput) (*RowsOutput, error) {
	clusterName, err := s.cluster(&in.Cluster)
	if err != nil {
		return nil, err
	}
	list := "rows of " + clusterName
	from, err := after(list, text(in.NextToken))
	if err != nil {
		return nil, err
	}
	rows, more, err := s.scheduler.Rows(ctx, clusterName, from)
	if err != nil {
		return nil, err
	}
	out := &RowsOutput{Rows: []Row{}}
	for _, r := range rows {
		row, err := rowOf(r)
		if err != nil {
			return nil, err
		}
		out.Rows = append(out.Rows, row)
	}
	if more {
		out.NextToken = value(token(list, state.KeyOf(rows[len(rows)-1]).Sort))
	}
	return out, nil
}
