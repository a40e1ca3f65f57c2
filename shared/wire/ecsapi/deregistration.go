package ecsapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/wire/answer"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/input"
)

// definitionView is ECS as Berth shows it: a revision that was deregistered through Berth is
// INACTIVE, even while ECS has it ACTIVE because services still start tasks of it.
type definitionView struct {
	upstream
	account  cluster.Account
	clusters Clusters
}

// Forward passes an operation on to ECS, and shows what ECS answers of task definitions as Berth has
// it.
func (v *definitionView) Forward(ctx context.Context, op string, body []byte) (int, []byte, error) {
	switch op {
	case "DescribeTaskDefinition":
		return v.describeDefinition(ctx, body)
	case "ListTaskDefinitions":
		return v.listRevisions(ctx, body)
	case "ListTaskDefinitionFamilies":
		return v.listFamilies(ctx, body)
	}
	return v.upstream.Forward(ctx, op, body)
}

// describeDefinition describes a revision, as INACTIVE if its deregistration is deferred. A family is
// its latest revision that is ACTIVE for Berth.
func (v *definitionView) describeDefinition(ctx context.Context, body []byte) (int, []byte, error) {
	status, out, err := v.upstream.Forward(ctx, "DescribeTaskDefinition", body)
	if err != nil || status != http.StatusOK {
		return status, out, err
	}
	var in ecs.DescribeTaskDefinitionInput
	if err := awsjson.DecodeForwarded(body, &in); err != nil {
		return 0, nil, err
	}
	found, err := readDefinition(out)
	if err != nil {
		return 0, nil, err
	}
	if found.Status != types.TaskDefinitionStatusActive {
		return http.StatusOK, out, nil
	}
	family := input.Value(found.Family)
	deferred, err := v.clusters.DeferredDeregistrations(ctx, family)
	if err != nil {
		return 0, nil, err
	}
	d := findDeregistration(deferred, cluster.TaskDefinitionName(family, int(found.Revision)))
	if d == nil {
		return http.StatusOK, out, nil
	}
	if strings.Contains(cluster.LastPart(input.Value(in.TaskDefinition)), ":") {
		out, err = showDeregistered(out, d)
		return http.StatusOK, out, err
	}
	latest, err := v.latestActive(ctx, family, deferred)
	if err != nil {
		return 0, nil, err
	}
	if latest == "" {
		return http.StatusBadRequest, noDefinition, nil
	}
	body, err = answer.Edit(body, func(o answer.Object) error { o["taskDefinition"] = latest; return nil })
	if err != nil {
		return 0, nil, err
	}
	return v.upstream.Forward(ctx, "DescribeTaskDefinition", body)
}

// noDefinition is ECS's answer for a family without an ACTIVE revision.
var noDefinition = []byte(`{"__type":"ClientException","message":"Unable to describe task definition."}`)

// latestActive returns the ARN of the family's latest revision that is ACTIVE at ECS and not among
// the deferred ones, "" if there is none.
func (v *definitionView) latestActive(
	ctx context.Context, family string, deferred []*operation.Deregistration,
) (string, error) {
	in := map[string]string{"familyPrefix": family, "status": "ACTIVE", "sort": "DESC"}
	for {
		var page ecs.ListTaskDefinitionsOutput
		if err := v.callECS(ctx, "ListTaskDefinitions", in, &page); err != nil {
			return "", err
		}
		for _, arn := range page.TaskDefinitionArns {
			if findDeregistration(deferred, cluster.LastPart(arn)) == nil {
				return arn, nil
			}
		}
		if page.NextToken == nil {
			return "", nil
		}
		in["nextToken"] = *page.NextToken
	}
}

// listRevisions lists revisions as Berth shows them: those with a deferred deregistration are not
// ACTIVE but INACTIVE, or DELETE_IN_PROGRESS.
func (v *definitionView) listRevisions(ctx context.Context, body []byte) (int, []byte, error) {
	var in ecs.ListTaskDefinitionsInput
	if err := awsjson.DecodeForwarded(body, &in); err != nil {
		return 0, nil, err
	}
	deferred, err := v.clusters.DeferredDeregistrations(ctx, input.Value(in.FamilyPrefix))
	if err != nil {
		return 0, nil, err
	}
	list := answer.List{Compare: compareRevisions}
	if in.Sort == types.SortOrderDesc {
		list.Compare = func(a, b string) int { return compareRevisions(b, a) }
	}
	wanted, names := cmp.Or(in.Status, types.TaskDefinitionStatusActive), map[string]*operation.Deregistration{}
	for _, d := range deferred {
		arn := v.account.ARN("task-definition", d.Name())
		names[arn] = d
		if statusOf(d) == wanted {
			list.Added = append(list.Added, arn)
		}
	}
	slices.SortFunc(list.Added, list.Compare)
	if len(names) > 0 {
		list.Hides = func(arn string) bool { return names[arn] != nil && statusOf(names[arn]) != wanted }
	}
	page := definitionPage{"ListTaskDefinitions", "taskDefinitionArns", input.Value(in.NextToken),
		int(cmp.Or(input.Value(in.MaxResults), defaultPage))}
	return v.forwardList(ctx, body, page, list)
}

// compareRevisions orders ARNs by family, then by revision, as ECS lists them.
func compareRevisions(a, b string) int {
	familyA, a, _ := strings.Cut(a[strings.LastIndexByte(a, '/')+1:], ":")
	familyB, b, _ := strings.Cut(b[strings.LastIndexByte(b, '/')+1:], ":")
	numberA, _ := strconv.Atoi(a)
	numberB, _ := strconv.Atoi(b)
	return cmp.Or(strings.Compare(familyA, familyB), cmp.Compare(numberA, numberB))
}

// listFamilies lists families as Berth shows them: one whose ACTIVE revisions at ECS all have a deferred
// deregistration is INACTIVE.
func (v *definitionView) listFamilies(ctx context.Context, body []byte) (int, []byte, error) {
	var in ecs.ListTaskDefinitionFamiliesInput
	if err := awsjson.DecodeForwarded(body, &in); err != nil {
		return 0, nil, err
	}
	list := answer.List{Compare: strings.Compare}
	if in.Status == types.TaskDefinitionFamilyStatusActive || in.Status == types.TaskDefinitionFamilyStatusInactive {
		ended, err := v.inactiveFamilies(ctx, input.Value(in.FamilyPrefix))
		if err != nil {
			return 0, nil, err
		}
		if in.Status == types.TaskDefinitionFamilyStatusInactive {
			list.Added = ended
		} else if len(ended) > 0 {
			list.Hides = func(family string) bool { return slices.Contains(ended, family) }
		}
	}
	page := definitionPage{"ListTaskDefinitionFamilies", "families", input.Value(in.NextToken),
		int(cmp.Or(input.Value(in.MaxResults), defaultPage))}
	return v.forwardList(ctx, body, page, list)
}

// inactiveFamilies returns the families with that prefix, in order, that are ACTIVE at ECS and have only
// revisions there whose deregistration is deferred. It asks ECS once for each family with such a revision.
func (v *definitionView) inactiveFamilies(ctx context.Context, prefix string) (families []string, err error) {
	deferred, err := v.clusters.DeferredDeregistrations(ctx, "")
	if err != nil {
		return nil, err
	}
	byFamily := map[string][]*operation.Deregistration{}
	for _, d := range deferred {
		if strings.HasPrefix(d.Family, prefix) {
			byFamily[d.Family] = append(byFamily[d.Family], d)
		}
	}
	for family, its := range byFamily {
		latest, err := v.latestActive(ctx, family, its)
		if err != nil {
			return nil, err
		}
		if latest == "" {
			families = append(families, family)
		}
	}
	slices.Sort(families)
	return families, nil
}

// A definitionPage is a request for a page of a list of task definitions or families.
type definitionPage struct {
	operation, member string
	token             string
	size              int // how many items it has at most
}

// defaultPage is how many items ECS lists on a page if the caller does not say.
const defaultPage = 100

// forwardList returns a page of a list. Where Berth shows the list otherwise than ECS, its token is
// Berth's own: how many items of ECS's page were shown before, the last item that was shown, behind
// which the page begins, and ECS's token of the page.
func (v *definitionView) forwardList(
	ctx context.Context, body []byte, of definitionPage, list answer.List,
) (int, []byte, error) {
	skip, after, page := of.start()
	if page != of.token {
		var err error
		body, err = answer.Edit(body, func(o answer.Object) error {
			if o["nextToken"] = page; page == "" {
				delete(o, "nextToken")
			}
			return nil
		})
		if err != nil {
			return 0, nil, err
		}
	}
	status, out, err := v.upstream.Forward(ctx, of.operation, body)
	if err != nil || status != http.StatusOK || len(list.Added) == 0 && list.Hides == nil && after == "" {
		return status, out, err
	}
	out, err = answer.Edit(out, func(o answer.Object) error {
		items, next := o.Strings(of.member), o.Text("nextToken")
		skip = min(skip, len(items))
		shown, used, isCut := list.Page(items[skip:], after, of.size, next == "")
		switch {
		case isCut:
			o["nextToken"] = of.tokenAt(skip+used, shown[len(shown)-1], page)
		case next != "":
			if len(items) > 0 {
				after = items[len(items)-1]
			}
			o["nextToken"] = of.tokenAt(0, after, next)
		}
		o[of.member] = shown
		return nil
	})
	return status, out, err
}

// start returns what tokenAt has put into the token. Any other token is ECS's own, which also says what
// is wrong with it.
func (p definitionPage) start() (skip int, after, page string) {
	start, err := input.PageStart(p.operation, p.token)
	parts := strings.SplitN(start, "\n", 3)
	if err != nil || len(parts) < 3 {
		return 0, "", p.token
	}
	skip, err = strconv.Atoi(parts[0])
	if err != nil || skip < 0 {
		return 0, "", p.token
	}
	return skip, parts[1], parts[2]
}

func (p definitionPage) tokenAt(skip int, after, page string) string {
	return input.PageToken(p.operation, fmt.Sprintf("%d\n%s\n%s", skip, after, page))
}

// deferDeregistration answers a DeregisterTaskDefinition that the sweep carries out later, because a
// cluster may use the revision. It returns nil if ECS should deregister it now.
func (v *definitionView) deferDeregistration(ctx context.Context, ref string) ([]byte, error) {
	out, found, err := v.describeAtECS(ctx, ref)
	if err != nil || found == nil || found.Status != types.TaskDefinitionStatusActive {
		return nil, err // ECS says what is wrong, or answers that it is INACTIVE
	}
	name := cluster.TaskDefinitionName(input.Value(found.Family), int(found.Revision))
	d, err := v.clusters.DeferDeregistration(ctx, name)
	if err != nil || d == nil {
		return nil, err
	}
	return answer.Edit(out, func(o answer.Object) error {
		delete(o, "tags") // which only the description has
		setDeregistered(o.Object("taskDefinition"), d)
		return nil
	})
}

// deferDeletions requests the deletion of those revisions whose deregistration is deferred. It
// returns them as they are described then, and the references of the others, which ECS deletes now.
func (v *definitionView) deferDeletions(ctx context.Context, refs []string) (shown []any, left []string, err error) {
	var names []string
	for _, ref := range refs {
		names = append(names, cluster.LastPart(ref))
	}
	deferred, err := v.clusters.DeferDeletion(ctx, names)
	if err != nil {
		return nil, nil, err
	}
	for n, ref := range refs {
		d := deferred[names[n]]
		if d == nil {
			left = append(left, ref)
			continue
		}
		out, found, err := v.describeAtECS(ctx, ref)
		if err != nil {
			return nil, nil, err
		}
		if found == nil { // deleted at ECS itself
			left = append(left, ref)
			continue
		}
		_, err = answer.Edit(out, func(o answer.Object) error {
			definition := o.Object("taskDefinition")
			setDeregistered(definition, d)
			shown = append(shown, map[string]any(definition))
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return shown, left, nil
}

// describeAtECS describes a revision as ECS has it. found is nil if ECS refuses to describe it.
func (v *definitionView) describeAtECS(
	ctx context.Context, ref string,
) (out []byte, found *types.TaskDefinition, err error) {
	body, err := json.Marshal(map[string]string{"taskDefinition": ref})
	if err != nil {
		return nil, nil, err
	}
	status, out, err := v.upstream.Forward(ctx, "DescribeTaskDefinition", body)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("asking ECS for task definition %s: %w", ref, err)
	case status == http.StatusBadRequest && cluster.ErrorCode(decodeError(status, out)) == cluster.CodeClient:
		return nil, nil, nil
	case status != http.StatusOK:
		return nil, nil, decodeError(status, out)
	}
	found, err = readDefinition(out)
	return out, found, err
}

// readDefinition reads the task definition in an answer of DescribeTaskDefinition.
func readDefinition(body []byte) (*types.TaskDefinition, error) {
	var out ecs.DescribeTaskDefinitionOutput
	if err := awsjson.DecodeAnswer(body, &out); err != nil {
		return nil, err
	}
	if out.TaskDefinition == nil {
		return nil, errors.New("reading a task definition: ECS answers with none")
	}
	return out.TaskDefinition, nil
}

// showDeregistered returns the description of a revision as it is after its deregistration.
func showDeregistered(body []byte, d *operation.Deregistration) ([]byte, error) {
	return answer.Edit(body, func(o answer.Object) error {
		if definition := o.Object("taskDefinition"); definition != nil {
			setDeregistered(definition, d)
		}
		return nil
	})
}

func setDeregistered(definition answer.Object, d *operation.Deregistration) {
	definition["status"] = string(statusOf(d))
	definition["deregisteredAt"] = unixSeconds(d.At)
	if !d.DeleteAt.IsZero() {
		definition["deleteRequestedAt"] = unixSeconds(d.DeleteAt)
	}
}

// unixSeconds returns a time as the protocol has it, in seconds since 1970.
func unixSeconds(t time.Time) json.Number {
	return json.Number(strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', -1, 64))
}

// statusOf returns what ECS would show of the revision.
func statusOf(d *operation.Deregistration) types.TaskDefinitionStatus {
	if d.DeleteAt.IsZero() {
		return types.TaskDefinitionStatusInactive
	}
	return types.TaskDefinitionStatusDeleteInProgress
}

// findDeregistration returns the one of the revision (family:revision), or nil.
func findDeregistration(deferred []*operation.Deregistration, name string) *operation.Deregistration {
	for _, d := range deferred {
		if d.Name() == name {
			return d
		}
	}
	return nil
}
