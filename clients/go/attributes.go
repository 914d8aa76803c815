package tollgate

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// Attributes describe a request. Each value is a string, a bool or a []string, and no string is longer than 1,024 bytes,
// because the service refuses longer ones. The policies of the service say which attributes matter. The attribute
// "action" is taken: it is the name of the check.
type Attributes map[string]any

const (
	action      = "action"
	maxCost     = 1<<32 - 1
	maxUnits    = 1000
	maxTextSize = 1024
)

// validFor returns what is wrong with a check of this name.
func (a Attributes) validFor(name string) error {
	if name == "" {
		return errors.New("tollgate: the name of a check is empty")
	}
	if !sendable(name) {
		return fmt.Errorf("tollgate: the name of a check is not UTF-8 of at most %d bytes", maxTextSize)
	}
	if _, taken := a[action]; taken {
		return errors.New(`tollgate: the attribute "action" is the name of the check, and cannot be given`)
	}
	return a.valid()
}

func (a Attributes) valid() error {
	for attribute, value := range a {
		if attribute == "" {
			return errors.New("tollgate: an attribute has an empty name")
		}
		if !utf8.ValidString(attribute) {
			return fmt.Errorf("tollgate: the name of the attribute %q is not UTF-8", attribute)
		}
		switch value := value.(type) {
		case bool:
		case string:
			if !sendable(value) {
				return fmt.Errorf("tollgate: the attribute %q is not UTF-8 of at most %d bytes", attribute, maxTextSize)
			}
		case []string:
			for _, element := range value {
				if !sendable(element) {
					return fmt.Errorf("tollgate: an element of the attribute %q is not UTF-8 of at most %d bytes", attribute, maxTextSize)
				}
			}
		default:
			return fmt.Errorf("tollgate: the attribute %q is a %T, not a string, a bool or a []string", attribute, value)
		}
	}
	return nil
}

func sendable(text string) bool {
	return len(text) <= maxTextSize && utf8.ValidString(text)
}

// texts are the values that no log may show.
func (a Attributes) texts() []string {
	var texts []string
	for _, value := range a {
		switch value := value.(type) {
		case string:
			texts = append(texts, value)
		case []string:
			texts = append(texts, value...)
		}
	}
	return texts
}
