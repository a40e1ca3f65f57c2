package cluster_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
)

// The state's hash is taken over encoded rows, so the keys of a row must stay in their order.
func TestUpdateIsStoredWithItsKeysInOrder(t *testing.T) {
	at, n := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC), 1
	sizes := &cluster.Sizes{}
	data, err := json.Marshal(&cluster.Update{
		Params: []cluster.UpdateParam{{}}, Errors: []cluster.UpdateError{{}}, EndedAt: at, Digest: "d",
		UpdateSpec: cluster.UpdateSpec{
			Force: true, Sizes: &cluster.SizesChange{}, ForceProtected: true, Seed: 1, UnrestoredSizes: sizes,
			LeftSizes: sizes, LeftScaleOuts: &n,
		},
		UpdateProgress: cluster.UpdateProgress{WaitingSince: at, ReconciledAt: at, WaitingFor: "w"},
		UpdateBaseline: cluster.UpdateBaseline{
			OriginalSizes: sizes, OriginalTemplate: "t", Zones: map[string]int{"a": 1}, PreviousTemplate: "p",
			Template: "t", InitiallyUnready: []string{"i"},
			MaxUnavailable: 1, Surge: 1, AddedByOthers: 1, KnownMaxima: []int{1}, UserMax: &n,
		},
		NodeReplacement: cluster.NodeReplacement{
			RequiredNodes: 1, Shortage: cluster.NodeShortage{Ready: 1}, StalledSince: at,
			Refusals: map[string]string{"i": "r"}, Removals: []cluster.NodeRemoval{{}},
			ByDomain: true, CurrentDomain: "ud1", DomainReplacedAt: at, UnhealthyBefore: []string{"s"},
		},
		SurplusRemoval: cluster.SurplusRemoval{
			RevertTemplate: true, DesiredFloor: &n, ScaleDownSince: at, ObservedDesired: 1,
			RetainedNodes: []string{"i"}, RetainedReasons: []string{"b"}, ReleasingSince: at,
			AbandonedNodes: []string{"i"}, SizesReason: "s", FinalSizes: sizes, FinalScaleOuts: &n,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for nested := regexp.MustCompile(`[{\[][^{}\[\]]*[}\]]`); strings.Count(text, "{") > 1; {
		text = text[:1] + nested.ReplaceAllString(text[1:len(text)-1], "0") + "}"
	}
	var keys []string
	for _, m := range regexp.MustCompile(`"(\w+)":`).FindAllStringSubmatch(text, -1) {
		keys = append(keys, m[1])
	}
	const want = "pk rv ng id st ty pa er ca ea dg ta uc fo sz fp se wa be lf lo ph si la wt or ot zo pv te ur mu su ad mx ux no sh sw rf wo " +
		"bd do dd ss rt fl fa de ke bl un ab sd fi fs"
	if got := strings.Join(keys, " "); got != want {
		t.Errorf("the keys are\n%s, not\n%s", got, want)
	}
}

// A change is refused before the group is known if no group allows it.
func TestChangesOfSizesThatNoGroupAllows(t *testing.T) {
	for _, c := range []struct {
		change cluster.SizesChange
		want   string
	}{
		{cluster.SizesChange{}, "<nil>"},
		{cluster.SizesChange{Min: new(3)}, "<nil>"},
		{cluster.SizesChange{Max: new(1)}, "<nil>"},
		{cluster.SizesChange{Desired: new(0)}, "<nil>"},
		{cluster.SizesChange{Min: new(3), Max: new(2)}, "can't be greater than maximum size 2"},
		{cluster.SizesChange{Min: new(3), Desired: new(2)}, "can't be greater than desired size 2"},
		{cluster.SizesChange{Max: new(3), Desired: new(4)}, "can't be greater than max size 3"},
		{cluster.SizesChange{Max: new(0)}, "maxSize at least 1"},
		{cluster.SizesChange{Min: new(-1)}, "minSize must be at least 0"},
	} {
		if got := fmt.Sprint(c.change.Validate()); !strings.Contains(got, c.want) {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// The call of Auto Scaling has 32 bits for a size: 4294967297 would arrive there as 1.
func TestSizesHave32Bits(t *testing.T) {
	const most, over = 1<<31 - 1, 1<<32 + 1
	if err := (cluster.Sizes{Min: most, Max: most, Desired: most}).Validate(); err != nil {
		t.Error(err)
	}
	for _, s := range []cluster.Sizes{{Max: over}, {Max: over, Desired: over}, {Min: over, Max: over, Desired: over},
		{Min: over, Max: 1}} {
		if err := s.Validate(); cluster.ErrorCode(err) != cluster.CodeInvalidParameter ||
			!strings.Contains(err.Error(), "must be at most 2147483647") {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
