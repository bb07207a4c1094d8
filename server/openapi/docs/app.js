'use strict'

// The page draws ../openapi/v1.json and sends requests to this peer. The token stays in this page.
const byID = id => document.getElementById(id)

// make returns an element with properties and children.
function make(tag, props = {}, ...children) {
  const e = Object.assign(document.createElement(tag), props)
  e.append(...children)
  return e
}

// sample returns an example of a schema, without fields of messages in messages.
function sample(doc, schema, depth = 0) {
  if (schema.$ref) schema = doc.components.schemas[schema.$ref.split('/').pop()]
  if (schema.enum) return schema.enum[0]
  if (schema.type === 'array') return []
  if (schema.type === 'boolean') return false
  if (schema.type === 'integer' || schema.type === 'number') return 0
  if (schema.type !== 'object') return ''
  const all = {}
  if (depth > 0) return all
  for (const [name, field] of Object.entries(schema.properties || {})) all[name] = sample(doc, field, depth + 1)
  return all
}

const quote = s => "'" + s.replaceAll("'", "'\\''") + "'"

// requestOf returns the URL and the options of fetch, from the inputs of an operation.
function requestOf(verb, path, inputs, body) {
  const headers = {}, query = new URLSearchParams()
  for (const { parameter, input } of inputs) {
    const value = input.value
    if (parameter.in === 'path') {
      path = path.replace('{' + parameter.name + '}', () => value.split('/').map(encodeURIComponent).join('/'))
    } else if (value !== '') {
      if (parameter.in === 'query') query.append(parameter.name, value)
      else headers[parameter.name] = value
    }
  }
  const token = byID('token').value.trim()
  if (token) headers.Authorization = 'Bearer ' + token
  const url = path + (query.size ? '?' + query : '')
  return { url, options: { method: verb, headers, body: body || undefined, credentials: 'same-origin' } }
}

// curl returns the request as a command. It names the token, and does not contain it.
function curl({ url, options }) {
  const parts = ['curl']
  if (options.method !== 'GET') parts.push('-X', options.method)
  for (const [name, value] of Object.entries(options.headers)) {
    parts.push('-H', name === 'Authorization' ? '"Authorization: Bearer $HOLDFAST_TOKEN"' : quote(name + ': ' + value))
  }
  if (options.body) parts.push('-d', quote(options.body))
  return parts.concat(quote(location.origin + url)).join(' ')
}

// send shows the response in out, part by part.
async function send(request, out, signal) {
  out.textContent = ''
  const response = await fetch(request.url, { ...request.options, signal })
  out.textContent = response.status + ' ' + response.statusText + '\n\n'
  const kind = response.headers.get('Content-Type') || ''
  if (kind.includes('json')) {
    const text = await response.text()
    try { out.textContent += JSON.stringify(JSON.parse(text), null, 2) } catch { out.textContent += text }
    return
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  for (let part = await reader.read(); !part.done; part = await reader.read()) out.textContent += part.value
}

// fill adds the form of an operation to its element, when it is opened first.
function fill(doc, element, verb, path, op) {
  const inputs = op.parameters.map(parameter => ({ parameter, input: make('input', { ariaLabel: parameter.name }) }))
  const table = make('table', {}, ...inputs.map(({ parameter, input }) => make('tr', {},
    make('td', {}, make('code', {}, parameter.name + (parameter.required ? ' *' : ''))),
    make('td', {}, input), make('td', {}, parameter.in), make('td', {}, parameter.description || ''))))
  const schema = op.requestBody?.content['application/json']?.schema
  const body = op.requestBody ? make('textarea', { spellcheck: false, ariaLabel: 'body' }) : null
  if (schema) body.value = JSON.stringify(sample(doc, schema), null, 2)
  const out = make('pre', { hidden: true }), command = make('pre', { hidden: true })
  const go = make('button', { type: 'button' }, 'Send')
  const stop = make('button', { type: 'button', disabled: true }, 'Stop')
  go.onclick = async () => {
    const abort = new AbortController(), request = requestOf(verb, path, inputs, body?.value)
    command.textContent = curl(request)
    out.hidden = command.hidden = stop.disabled = false
    go.disabled = true
    stop.onclick = () => abort.abort()
    try { await send(request, out, abort.signal) } catch (e) { out.textContent += '\n' + e.message }
    stop.disabled = true
    go.disabled = false
  }
  element.append(make('p', {}, op.description), table)
  if (body) element.append(make('label', {}, 'Body', body))
  element.append(make('p', {}, go, ' ', stop), command, out)
}

function draw(doc) {
  const main = byID('operations')
  main.replaceChildren()
  for (const tag of doc.tags) {
    const section = make('section', {}, make('h2', {}, tag.name), make('p', {}, tag.description))
    for (const [path, verbs] of Object.entries(doc.paths)) {
      for (const [verb, op] of Object.entries(verbs)) {
        if (op.tags[0] !== tag.name) continue
        const element = make('details', {}, make('summary', {}, make('span', { className: 'verb' }, verb.toUpperCase()),
          make('span', { className: 'path' }, path), make('span', { className: 'about' }, op.summary || '')))
        element.dataset.text = [verb, path, tag.name, op.operationId, op.summary].join(' ').toLowerCase()
        element.addEventListener('toggle', () => fill(doc, element, verb.toUpperCase(), path, op), { once: true })
        section.append(element)
      }
    }
    main.append(section)
  }
  byID('find').oninput = e => {
    const words = e.target.value.toLowerCase().split(/\s+/)
    for (const section of main.children) {
      let any = false
      for (const element of section.querySelectorAll('details')) {
        element.hidden = !words.every(w => element.dataset.text.includes(w))
        any ||= !element.hidden
      }
      section.hidden = !any
    }
  }
}

fetch('../openapi/v1.json').then(r => r.json()).then(draw, e => { byID('operations').textContent = e.message })
