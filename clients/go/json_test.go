package tollgate

import (
	"encoding/json"
	"testing"
)

// The reader finds what encoding/json finds, in every valid text, and refuses every other one.
func FuzzFieldsOf(f *testing.F) {
	for _, text := range []string{
		`{}`, `[]`, ``, `{"a":1}`, ` { "a" : [ {"b":"]}"} , 2 ] , "c":{"d":{}},"e":null,"f":"x\\\"y","g":-1.5e3 } `,
		`{"a":"\u00e9","\u0062":true}`, `{"a":1,}`, `{"a"}`, `{"a":[}]}`, `{"a":"b`, "{\"a\":\"\xff\"}", `{"a":1}{}`, `{"":""}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		found := map[string]string{}
		err := fieldsOf(text, func(name, value []byte) error {
			found[string(name)] = string(value)
			return nil
		})
		var expected map[string]json.RawMessage
		if json.Unmarshal(text, &expected) != nil || expected == nil {
			if err == nil {
				t.Fatalf("read %q", text)
			}
			return
		}
		if err != nil || len(found) != len(expected) {
			t.Fatalf("%q: found %v, %v, expected %v", text, found, err, expected)
		}
		for name, value := range expected {
			if found[name] != string(value) {
				t.Errorf("%q: field %q is %q, expected %q", text, name, found[name], value)
			}
			var want string
			got, err := textOf(value)
			if wrong := json.Unmarshal(value, &want); (wrong != nil) != (err != nil) || got != want {
				t.Errorf("%q: text %q, %v, expected %q, %v", value, got, err, want, wrong)
			}
		}
	})
}

func FuzzAppendText(f *testing.F) {
	for _, text := range []string{"", "a", `"\`, "\x00\x1f\x7f", "é\u2028", "\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var read, expected string
		quoted, _ := json.Marshal(text)
		if err := json.Unmarshal(appendText(nil, text), &read); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if err := json.Unmarshal(quoted, &expected); err != nil || read != expected {
			t.Errorf("%q: read %q, expected %q", text, read, expected)
		}
	})
}
