package wire_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"pgregory.net/rapid"

	"berth/shared/operation"
	"berth/shared/wire/input"
)

// pageOf returns a page of a list in order; a token is how many items are before it.
func pageOf(list []string, token *string, size *int32) (page []string, next *string) {
	begin := 0
	if token != nil {
		begin, _ = strconv.Atoi(*token)
	}
	end := min(len(list), begin+100)
	if size != nil {
		end = min(end, begin+int(*size))
	}
	if end < len(list) {
		next = new(strconv.Itoa(end))
	}
	return list[begin:end], next
}

// A revision is one of a task definition, as somebody has it.
type revision struct {
	family string
	number int
	status types.TaskDefinitionStatus
}

func listRevisions(all []revision, in *ecs.ListTaskDefinitionsInput) (arns []string) {
	slices.SortFunc(all, func(a, b revision) int {
		return cmp.Or(cmp.Compare(a.family, b.family), cmp.Compare(a.number, b.number))
	})
	for _, r := range all {
		if r.status == cmp.Or(in.Status, types.TaskDefinitionStatusActive) &&
			(in.FamilyPrefix == nil || r.family == *in.FamilyPrefix) {
			arns = append(arns, account.ARN("task-definition", fmt.Sprintf("%s:%d", r.family, r.number)))
		}
	}
	if in.Sort == types.SortOrderDesc {
		slices.Reverse(arns)
	}
	return arns
}

func listFamilies(all []revision, in *ecs.ListTaskDefinitionFamiliesInput) []string {
	active, status := map[string]bool{}, in.Status
	for _, r := range all {
		if in.FamilyPrefix != nil && !strings.HasPrefix(r.family, *in.FamilyPrefix) {
			continue
		}
		active[r.family] = active[r.family] || r.status == types.TaskDefinitionStatusActive
	}
	maps.DeleteFunc(active, func(_ string, is bool) bool {
		return status == types.TaskDefinitionFamilyStatusActive && !is ||
			status == types.TaskDefinitionFamilyStatusInactive && is
	})
	return slices.Sorted(maps.Keys(active))
}

func (c *cloud) listTaskDefinitions(
	_ context.Context, in *ecs.ListTaskDefinitionsInput,
) (*ecs.ListTaskDefinitionsOutput, error) {
	arns, next := pageOf(listRevisions(c.revisions, in), in.NextToken, in.MaxResults)
	return &ecs.ListTaskDefinitionsOutput{TaskDefinitionArns: arns, NextToken: next}, nil
}

func (c *cloud) listFamilies(
	_ context.Context, in *ecs.ListTaskDefinitionFamiliesInput,
) (*ecs.ListTaskDefinitionFamiliesOutput, error) {
	families, next := pageOf(listFamilies(c.revisions, in), in.NextToken, in.MaxResults)
	return &ecs.ListTaskDefinitionFamiliesOutput{Families: families, NextToken: next}, nil
}

// Page by page, the lists of task definitions and of families are those that ECS would give had it
// deregistered already what Berth has deferred, in the same order, and no page is longer than asked for.
func TestDefinitionListsAreAsAfterTheDeregistration(t *testing.T) {
	b := newBerth(t)
	rapid.Check(t, func(t *rapid.T) {
		var shown []revision
		b.cloud.revisions, b.scheduler.deferred = nil, map[string]*operation.Deregistration{}
		for _, family := range []string{"quay", "quay-2", "shop", "web"} {
			for n := range rapid.IntRange(0, 4).Draw(t, family) {
				r := revision{family, n + 8, types.TaskDefinitionStatusActive} // 8, 9, 10: not in the order of texts
				at := r
				switch rapid.IntRange(0, 3).Draw(t, "state") {
				case 0:
					r.status = types.TaskDefinitionStatusInactive
					at = r
				case 1:
					d := &operation.Deregistration{Family: r.family, Revision: r.number, At: noon}
					r.status = types.TaskDefinitionStatusInactive
					if rapid.Bool().Draw(t, "delete") {
						d.DeleteAt, r.status = noon, types.TaskDefinitionStatusDeleteInProgress
					}
					b.scheduler.deferred[d.Name()] = d
				}
				b.cloud.revisions, shown = append(b.cloud.revisions, at), append(shown, r)
			}
		}
		family := rapid.SampledFrom([]*string{nil, new("quay")}).Draw(t, "of")
		for _, size := range []*int32{new(int32(1)), new(int32(2)), nil} {
			checkRevisions(t, b, size, shown, family)
			checkFamilies(t, b, size, shown, family)
		}
	})
}

// checkRevisions checks the lists of revisions by every status and in both orders, of one family or of all.
func checkRevisions(t *rapid.T, b *berth, size *int32, shown []revision, family *string) {
	t.Helper()
	for _, status := range []types.TaskDefinitionStatus{"", "INACTIVE", "DELETE_IN_PROGRESS"} {
		for _, order := range []types.SortOrder{"", types.SortOrderDesc} {
			in := ecs.ListTaskDefinitionsInput{MaxResults: size, Status: status, Sort: order, FamilyPrefix: family}
			checkPages(t, size, listRevisions(shown, &in), func(token *string) ([]string, *string, error) {
				in.NextToken = token
				out, err := b.ListTaskDefinitions(context.Background(), &in)
				if err != nil {
					return nil, nil, err
				}
				return out.TaskDefinitionArns, out.NextToken, nil
			})
		}
	}
}

// checkFamilies checks the lists of families by every status, of those with a prefix or of all. Families
// that are INACTIVE only for Berth come after the others.
func checkFamilies(t *rapid.T, b *berth, size *int32, shown []revision, prefix *string) {
	t.Helper()
	for _, status := range []types.TaskDefinitionFamilyStatus{"", "ACTIVE", "INACTIVE", "ALL"} {
		in := ecs.ListTaskDefinitionFamiliesInput{MaxResults: size, Status: status, FamilyPrefix: prefix}
		want := listFamilies(shown, &in)
		if status == "INACTIVE" {
			own := listFamilies(b.cloud.revisions, &in)
			want = append(own, slices.DeleteFunc(want, func(f string) bool { return slices.Contains(own, f) })...)
		}
		checkPages(t, size, want, func(token *string) ([]string, *string, error) {
			in.NextToken = token
			out, err := b.ListTaskDefinitionFamilies(context.Background(), &in)
			if err != nil {
				return nil, nil, err
			}
			return out.Families, out.NextToken, nil
		})
	}
}

// checkPages reads all pages and checks that they are the wanted list, none of them longer than size.
func checkPages(
	t *rapid.T, size *int32, want []string, read func(token *string) ([]string, *string, error),
) {
	t.Helper()
	var got []string
	var token *string
	for range 100 {
		page, next, err := read(token)
		if err != nil {
			t.Fatal(err)
		}
		if size != nil && len(page) > int(*size) {
			t.Fatalf("a page has %d items, %d at most were asked for", len(page), *size)
		}
		got = append(got, page...)
		if token = next; token == nil {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("listed are %v, want %v", got, want)
	}
}

// A page has at most 100 revisions if the caller does not say how many, and the next page has the rest.
func TestLongDefinitionLists(t *testing.T) {
	b, ctx := newBerth(t), t.Context()
	b.scheduler.deferred = map[string]*operation.Deregistration{"shop:0": {Family: "shop", At: noon}}
	for n := range 120 {
		b.cloud.revisions = append(b.cloud.revisions, revision{"shop", n + 1, types.TaskDefinitionStatusInactive})
	}
	in := &ecs.ListTaskDefinitionsInput{Status: types.TaskDefinitionStatusInactive}
	first := must(b.ListTaskDefinitions(ctx, in))(t)
	in.NextToken = first.NextToken
	second := must(b.ListTaskDefinitions(ctx, in))(t)
	expect(t, "first page", len(first.TaskDefinitionArns), 100)
	in.NextToken = second.NextToken
	third := must(b.ListTaskDefinitions(ctx, in))(t)
	all := slices.Concat(first.TaskDefinitionArns, second.TaskDefinitionArns, third.TaskDefinitionArns)
	expect(t, "revisions", len(slices.Compact(all)), 121)
	expect(t, "more", third.NextToken == nil, true)
}

// A token that Berth did not make for this list goes to ECS, which says what is wrong with it.
func TestOtherTokensGoToECS(t *testing.T) {
	b, ctx := newBerth(t), t.Context()
	b.scheduler.deferred = map[string]*operation.Deregistration{"shop:3": {Family: "shop", Revision: 3, At: noon}}
	b.cloud.revisions = []revision{{"shop", 3, types.TaskDefinitionStatusActive},
		{"shop", 4, types.TaskDefinitionStatusInactive}}
	first := must(b.ListTaskDefinitions(ctx,
		&ecs.ListTaskDefinitionsInput{Status: types.TaskDefinitionStatusInactive, MaxResults: new(int32(1))}))(t)
	for _, token := range []string{*first.NextToken, "1", input.PageToken("ListTaskDefinitions ACTIVE  ", "x")} {
		_ = must(b.ListTaskDefinitions(ctx, &ecs.ListTaskDefinitionsInput{NextToken: &token}))(t)
		if !strings.Contains(string(b.cloud.last), token) {
			t.Errorf("ECS was asked %s", b.cloud.last)
		}
	}
}
