package wire_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/wire/transport"
)

// accountSettings keeps account settings as the real API does.
type accountSettings map[string]map[string]string

func (s accountSettings) AccountSettings(context.Context) (map[string]map[string]string, error) {
	return s, nil
}

func (s accountSettings) SetAccountSetting(_ context.Context, principal, name, value string) error {
	if s[principal] == nil {
		s[principal] = map[string]string{}
	}
	s[principal][name] = value
	return nil
}

func settingTexts(settings []types.Setting) (out []string) {
	for _, s := range settings {
		out = append(out, fmt.Sprintf("%s=%s of %s", s.Name, *s.Value,
			(*s.PrincipalArn)[strings.LastIndexByte(*s.PrincipalArn, ':')+1:]))
	}
	return out
}

const insights = types.SettingNameContainerInsights

// A principal has its own settings, else the account's, else ECS's defaults.
func TestAccountSettings(t *testing.T) {
	b := newBerth(t)
	list := func(in ecs.ListAccountSettingsInput) []string {
		return settingTexts(must(b.ListAccountSettings(t.Context(), &in))(t).Settings)
	}
	expect(t, "nothing set", list(ecs.ListAccountSettingsInput{}), []string(nil))
	expect(t, "effective", list(ecs.ListAccountSettingsInput{EffectiveSettings: true}), []string{
		"containerInsights=disabled of root", "containerInstanceLongArnFormat=enabled of root",
		"serviceLongArnFormat=enabled of root", "taskLongArnFormat=enabled of root",
	})
	ann := "arn:aws:iam::123456789012:user/ann"
	must(b.PutAccountSettingDefault(t.Context(), &ecs.PutAccountSettingDefaultInput{Name: insights,
		Value: new("enabled")}))(t)
	set := must(b.PutAccountSetting(t.Context(), &ecs.PutAccountSettingInput{Name: insights, Value: new("enhanced"),
		PrincipalArn: &ann}))(t)
	expect(t, "set", settingTexts([]types.Setting{*set.Setting}), []string{"containerInsights=enhanced of user/ann"})
	effective := ecs.ListAccountSettingsInput{EffectiveSettings: true, Name: insights}
	expect(t, "everybody's", list(effective), []string{"containerInsights=enabled of root"})
	effective.PrincipalArn = &ann
	expect(t, "Ann's", list(effective), []string{"containerInsights=enhanced of user/ann"})
	deleted := must(b.DeleteAccountSetting(t.Context(),
		&ecs.DeleteAccountSettingInput{Name: insights, PrincipalArn: &ann}))(t)
	expect(t, "deleted", *deleted.Setting.Value, "enabled")
	expect(t, "no longer Ann's", list(effective), []string{"containerInsights=enabled of root"})
	page := must(b.ListAccountSettings(t.Context(), &ecs.ListAccountSettingsInput{EffectiveSettings: true,
		MaxResults: 3}))(t)
	rest := must(b.ListAccountSettings(t.Context(), &ecs.ListAccountSettingsInput{EffectiveSettings: true,
		NextToken: page.NextToken}))(t)
	expect(t, "second page", settingTexts(rest.Settings), []string{"taskLongArnFormat=enabled of root"})
}

// Sessions of a role share the role's settings.
func TestAccountSettingsOfTheCaller(t *testing.T) {
	b := newBerth(t)
	session := transport.WithPrincipal(t.Context(), "arn:aws:sts::123456789012:assumed-role/deployer/one")
	_, answer := b.mux.ServeOperation(session, "PutAccountSetting",
		[]byte(`{"name":"containerInsights","value":"enabled"}`))
	if !strings.Contains(string(answer), "arn:aws:iam::123456789012:role/deployer") {
		t.Errorf("the answer is %s", answer)
	}
	other := transport.WithPrincipal(t.Context(), "arn:aws:sts::123456789012:assumed-role/deployer/two")
	_, answer = b.mux.ServeOperation(other, "ListAccountSettings", []byte(`{"name":"containerInsights"}`))
	if !strings.Contains(string(answer), `"enabled"`) {
		t.Errorf("the answer is %s", answer)
	}
}

func TestAccountSettingsAreChecked(t *testing.T) {
	b := newBerth(t)
	for name, c := range map[string]struct{ op, body, code, text string }{
		"NoName": {"PutAccountSetting", `{"value":"enabled"}`, "InvalidParameterException",
			"name must not be empty"},
		"UnknownName": {"PutAccountSetting", `{"name":"x","value":"enabled"}`, "InvalidParameterException",
			"x should be one of [serviceLongArnFormat,"},
		"NoValue": {"PutAccountSettingDefault", `{"name":"containerInsights"}`, "InvalidParameterException",
			"value"},
		"UnknownValue": {"PutAccountSettingDefault", `{"name":"containerInsights","value":"on"}`,
			"InvalidParameterException", "Invalid setting 'value'"},
		"ShortARNs": {"PutAccountSetting", `{"name":"taskLongArnFormat","value":"disabled"}`,
			"InvalidParameterException", "You can no longer disable Long Arn settings"},
		"Trunking": {"PutAccountSetting", `{"name":"awsvpcTrunking","value":"enabled"}`, notSupported,
			"name awsvpcTrunking is not supported: ECS"},
		"ListTrunking": {"ListAccountSettings", `{"name":"awsvpcTrunking"}`, notSupported, "name awsvpcTrunking"},
		"OtherAccount": {"PutAccountSetting",
			`{"name":"containerInsights","value":"enabled","principalArn":"arn:aws:iam::210987654321:user/ann"}`,
			"InvalidParameterException", "of this account"},
		"ValueAlone": {"ListAccountSettings", `{"value":"enabled"}`, "InvalidParameterException", "value needs name"},
		"TooMany":    {"ListAccountSettings", `{"maxResults":101}`, "InvalidParameterException", "maxResults"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, code, message := b.answered(t, c.op, c.body); code != c.code || !strings.Contains(message, c.text) {
				t.Errorf("%s %s, want %s %s", code, message, c.code, c.text)
			}
		})
	}
}

// New clusters have the account's Container Insights unless the request says otherwise.
func TestNewClustersHaveTheAccountsInsights(t *testing.T) {
	b := newBerth(t)
	created := func(settings ...types.ClusterSetting) string {
		t.Helper()
		must(b.CreateCluster(t.Context(), &ecs.CreateClusterInput{ClusterName: new("prod"), Settings: settings}))(t)
		return string(b.cloud.last)
	}
	expect(t, "without a setting", created(), `{"clusterName":"prod"}`)
	must(b.PutAccountSettingDefault(t.Context(), &ecs.PutAccountSettingDefaultInput{Name: insights,
		Value: new("enhanced")}))(t)
	expect(t, "with the account's", created(),
		`{"clusterName":"prod","settings":[{"name":"containerInsights","value":"enhanced"}]}`)
	expect(t, "with its own", created(types.ClusterSetting{Name: types.ClusterSettingNameContainerInsights,
		Value: new("disabled")}),
		`{"clusterName":"prod","settings":[{"name":"containerInsights","value":"disabled"}]}`)
}
