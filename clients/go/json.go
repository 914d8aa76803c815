package tollgate

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"time"
	"unicode/utf8"
)

// Checks are in the path of every request of a server, and reflection over their bodies takes a tenth of the time of a
// whole call. So these two bodies are written and read here, with encoding/json for what is unusual.

// appendText appends a JSON string.
func appendText(to []byte, text string) []byte {
	for _, char := range []byte(text) {
		if char < ' ' || char > '~' || char == '"' || char == '\\' {
			quoted, _ := json.Marshal(text)
			return append(to, quoted...)
		}
	}
	to = append(to, '"')
	to = append(to, text...)
	return append(to, '"')
}

// appendAttributes appends attributes that are valid, and the name of the check.
func appendAttributes(to []byte, name string, attributes Attributes) []byte {
	to = append(to, `{"action":`...)
	to = appendText(to, name)
	for attribute, value := range attributes {
		to = append(to, ',')
		to = appendText(to, attribute)
		to = append(to, ':')
		switch value := value.(type) {
		case string:
			to = appendText(to, value)
		case bool:
			to = strconv.AppendBool(to, value)
		case []string:
			to = append(to, '[')
			for index, element := range value {
				if index > 0 {
					to = append(to, ',')
				}
				to = appendText(to, element)
			}
			to = append(to, ']')
		}
	}
	return append(to, '}')
}

var errNotObject = errors.New("tollgate: not an object of JSON")

// fieldsOf calls a function with each field of an object of JSON, in its order.
func fieldsOf(object []byte, field func(name, value []byte) error) error {
	object = bytes.TrimSpace(object)
	if !json.Valid(object) || object[0] != '{' {
		return errNotObject
	}
	// The text is valid, so strings and brackets end.
	rest := object[1 : len(object)-1]
	for {
		rest = bytes.TrimLeft(rest, " \t\r\n,")
		if len(rest) == 0 {
			return nil
		}
		end := valueEnd(rest)
		name, err := bytesOf(rest[:end])
		if err != nil {
			return err
		}
		rest = bytes.TrimLeft(rest[end:], " \t\r\n:")
		end = valueEnd(rest)
		if err := field(name, rest[:end]); err != nil {
			return err
		}
		rest = rest[end:]
	}
}

// valueEnd is where the first value of a valid text ends.
func valueEnd(text []byte) int {
	depth, inString := 0, false
	for at := 0; at < len(text); at++ {
		char := text[at]
		switch {
		case inString && char == '\\':
			at++
		case char == '"':
			inString = !inString
			if !inString && depth == 0 {
				return at + 1
			}
		case inString:
		case char == '{' || char == '[':
			depth++
		case char == '}' || char == ']':
			depth--
			if depth == 0 {
				return at + 1
			}
		case depth == 0 && (char == ',' || char == ':' || char <= ' '):
			return at
		}
	}
	return len(text)
}

func textOf(value []byte) (string, error) {
	text, err := bytesOf(value)
	return string(text), err
}

// bytesOf returns the bytes of a string, which are a part of it if none of them is escaped.
func bytesOf(value []byte) ([]byte, error) {
	if len(value) >= 2 && value[0] == '"' && bytes.IndexByte(value, '\\') < 0 && utf8.Valid(value) {
		return value[1 : len(value)-1], nil
	}
	var text string
	err := json.Unmarshal(value, &text)
	return []byte(text), err
}

func readText[T ~string](to *T, value []byte) error {
	text, err := textOf(value)
	*to = T(text)
	return err
}

func readNumber(to *Optional[int64], value []byte) error {
	if string(value) == "null" {
		return nil
	}
	number, err := strconv.ParseInt(string(value), 10, 64)
	*to = Some(number)
	return err
}

func readMilliseconds(to *Optional[time.Duration], value []byte) error {
	var number Optional[int64]
	err := readNumber(&number, value)
	if number.Present {
		*to = milliseconds(&number.Value)
	}
	return err
}
