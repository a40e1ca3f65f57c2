package ecsapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
		if input.Value(page.NextToken) == "" {
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
	// Before ECS is asked: what the sweep deregisters in between is then in both, and shown once.
	deferred, err := v.clusters.DeferredDeregistrations(ctx, input.Value(in.FamilyPrefix))
	if err != nil {
		return 0, nil, err
	}
	list := answer.List{Compare: compareRevisions}
	if in.Sort == types.SortOrderDesc {
		list.Compare = func(a, b string) int { return compareRevisions(b, a) }
	}
	wanted := cmp.Or(in.Status, types.TaskDefinitionStatusActive)
	for _, d := range deferred {
		if statusOf(d) == wanted {
			list.Added = append(list.Added, v.account.ARN("task-definition", d.Name()))
		}
	}
	slices.SortFunc(list.Added, list.Compare)
	list.IsHidden = func(arn string) bool {
		d := findDeregistration(deferred, cluster.LastPart(arn))
		return d != nil && statusOf(d) != wanted
	}
	request := pageRequest{
		operation: "ListTaskDefinitions", member: "taskDefinitionArns", token: input.Value(in.NextToken),
		filter: strings.Join([]string{string(wanted), string(in.Sort), input.Value(in.FamilyPrefix)}, " "),
		size:   int(cmp.Or(input.Value(in.MaxResults), defaultPage)),
	}
	return v.forwardList(ctx, body, request, func([]string, answer.Cursor, bool) (answer.List, error) {
		return list, nil
	})
}

// compareRevisions orders ARNs by family, then by revision, as ECS lists them.
func compareRevisions(a, b string) int {
	familyA, a, _ := strings.Cut(cluster.LastPart(a), ":")
	familyB, b, _ := strings.Cut(cluster.LastPart(b), ":")
	numberA, _ := strconv.Atoi(a)
	numberB, _ := strconv.Atoi(b)
	return cmp.Or(strings.Compare(familyA, familyB), cmp.Compare(numberA, numberB))
}

// listFamilies lists families as Berth shows them: one whose ACTIVE revisions at ECS all have a deferred
// deregistration is INACTIVE, and comes after ECS's own, whose order ECS does not document.
func (v *definitionView) listFamilies(ctx context.Context, body []byte) (int, []byte, error) {
	var in ecs.ListTaskDefinitionFamiliesInput
	if err := awsjson.DecodeForwarded(body, &in); err != nil {
		return 0, nil, err
	}
	deferred, err := v.clusters.DeferredDeregistrations(ctx, "") // before ECS is asked, see listRevisions
	if err != nil {
		return 0, nil, err
	}
	byFamily := map[string][]*operation.Deregistration{}
	for _, d := range deferred {
		if strings.HasPrefix(d.Family, input.Value(in.FamilyPrefix)) {
			byFamily[d.Family] = append(byFamily[d.Family], d)
		}
	}
	request := pageRequest{
		operation: "ListTaskDefinitionFamilies", member: "families", token: input.Value(in.NextToken),
		filter: string(in.Status) + " " + input.Value(in.FamilyPrefix),
		size:   int(cmp.Or(input.Value(in.MaxResults), defaultPage)),
	}
	return v.forwardList(ctx, body, request,
		func(items []string, from answer.Cursor, isLast bool) (list answer.List, err error) {
			asked := slices.Sorted(maps.Keys(byFamily))
			switch {
			case in.Status == types.TaskDefinitionFamilyStatusActive:
				asked = slices.DeleteFunc(asked, func(name string) bool { return !slices.Contains(items, name) })
			case in.Status == types.TaskDefinitionFamilyStatusInactive && isLast:
				asked = slices.DeleteFunc(asked, func(name string) bool { return name <= from.Added })
			default:
				return list, nil
			}
			// One more than the page has room for says that another follows.
			inactive, err := v.inactiveFamilies(ctx, asked, byFamily, request.size+1)
			if in.Status == types.TaskDefinitionFamilyStatusInactive {
				list.Added = inactive
			} else {
				list.IsHidden = func(name string) bool { return slices.Contains(inactive, name) }
			}
			return list, err
		})
}

// inactiveFamilies returns the first most of the families that have no ACTIVE revision but deferred ones. It
// asks ECS about one family after the other.
func (v *definitionView) inactiveFamilies(
	ctx context.Context, families []string, deferred map[string][]*operation.Deregistration, most int,
) (inactive []string, err error) {
	for _, family := range families {
		latest, err := v.latestActive(ctx, family, deferred[family])
		if err != nil {
			return nil, err
		}
		if latest == "" {
			inactive = append(inactive, family)
		}
		if len(inactive) == most {
			break
		}
	}
	return inactive, nil
}

// A pageRequest is what a caller asks for: one page of a list of task definitions or families.
type pageRequest struct {
	operation, member string
	filter            string // what a token is good for
	token             string
	size              int // how many items the page has at most
}

// defaultPage is how many items ECS lists on a page if the caller does not say.
const defaultPage = 100

// forwardList returns a page of ECS's list as Berth shows it. view returns what is shown otherwise, given
// ECS's page, where the request continues, and whether it is the list's last page. The token is ECS's own
// until something is added; then it holds ECS's token, and where that page continues.
func (v *definitionView) forwardList(
	ctx context.Context, body []byte, request pageRequest,
	view func(items []string, from answer.Cursor, isLast bool) (answer.List, error),
) (int, []byte, error) {
	ecsToken, from := request.decodeToken()
	if ecsToken != request.token {
		var err error
		body, err = answer.Edit(body, func(o answer.Object) error {
			if o["nextToken"] = ecsToken; ecsToken == "" {
				delete(o, "nextToken")
			}
			return nil
		})
		if err != nil {
			return 0, nil, err
		}
	}
	status, out, err := v.upstream.Forward(ctx, request.operation, body)
	if err != nil || status != http.StatusOK {
		return status, out, err
	}
	out, err = answer.Edit(out, func(o answer.Object) error {
		items, next := o.Strings(request.member), o.Text("nextToken")
		list, err := view(items, from, next == "")
		if err != nil {
			return err
		}
		shown, at, isCut := list.Page(items, from, request.size, next == "")
		switch {
		case isCut:
			o["nextToken"] = request.encodeToken(ecsToken, at)
		case next != "" && at.Added != "":
			o["nextToken"] = request.encodeToken(next, at)
		}
		o[request.member] = shown
		return nil
	})
	return status, out, err
}

// decodeToken returns what encodeToken has put into the token. Any other token is passed on to ECS, which
// refuses it unless it is its own.
func (r pageRequest) decodeToken() (ecsToken string, at answer.Cursor) {
	token, err := input.PageStart(r.operation+" "+r.filter, r.token)
	parts := strings.SplitN(token, "\n", 3)
	if err != nil || len(parts) < 3 {
		return r.token, answer.Cursor{}
	}
	return parts[2], answer.Cursor{Item: parts[0], Added: parts[1]}
}

func (r pageRequest) encodeToken(ecsToken string, at answer.Cursor) string {
	return input.PageToken(r.operation+" "+r.filter, at.Item+"\n"+at.Added+"\n"+ecsToken)
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
