// Runs in the browser, whose types the rest of the repository does without.

export function overflowing() {
  const { scrollWidth, clientWidth } = document.documentElement;
  const wide = scrollWidth > clientWidth ? [`the page is ${scrollWidth} pixels wide, the window ${clientWidth}`] : [];
  const beyond = [...document.querySelectorAll('body *')]
    .filter((element) => element.closest('.scroll, pre, .skip') === null)
    .map((element) => ({ element, right: element.getBoundingClientRect().right }))
    .filter(({ right }) => right > clientWidth + 1)
    .map(({ element, right }) => `${element.tagName} '${element.textContent.slice(0, 40)}' ends at ${right}`);
  return [...wide, ...beyond];
}

export function illegible() {
  const problems = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const element = node.parentElement;
    const words = node.textContent.trim();
    if (words === '' || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const pixels = Number.parseFloat(style.fontSize);
    if (pixels < 11) problems.push(`'${words}' has ${pixels.toFixed(1)} pixels`);
    const ratio = contrast(luminance(parsed(style.color)), luminance(groundOf(element)));
    if (ratio < 4.5) problems.push(`'${words}' has a contrast of ${ratio.toFixed(2)}`);
  }
  return problems;

  function contrast(one, other) {
    return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  }

  function luminance([red, green, blue]) {
    const [r, g, b] = [red, green, blue].map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }

  function groundOf(element) {
    if (element === null) return [255, 255, 255];
    const own = parsed(getComputedStyle(element).backgroundColor);
    return own[3] === 1 ? own : groundOf(element.parentElement);
  }

  function parsed(colour) {
    const [red, green, blue, alpha = 1] = (colour.match(/[\d.]+/g) ?? [0, 0, 0]).map(Number);
    return [red, green, blue, alpha];
  }
}

export function reachable() {
  const elements = [...document.querySelectorAll('a[href], summary, [tabindex="0"]')];
  return elements.filter((element) => element.checkVisibility()).length;
}

export function focused() {
  const element = document.activeElement;
  const { outlineStyle, outlineWidth } = getComputedStyle(element);
  return {
    name: `${element.tagName} ${element.textContent.slice(0, 60)}`,
    shows: element !== document.body && outlineStyle !== 'none' && outlineWidth !== '0px',
  };
}

export function openDetails() {
  for (const details of document.querySelectorAll('details')) details.open = true;
}

export function inkColour() {
  return getComputedStyle(document.body).color;
}

/** Waits until what follows from a change of size is drawn. */
export function twoFrames() {
  return new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
}

/** The first line of the first chart: its axis is 62 pixels wide, 80 with a title, and 32 are left free behind it. */
export function drawnAt(shares) {
  const canvas = document.querySelector('canvas');
  const scale = canvas.width / canvas.clientWidth;
  const ink = getComputedStyle(document.documentElement).getPropertyValue('--series-1').trim().slice(1);
  const wanted = [0, 2, 4].map((at) => Number.parseInt(ink.slice(at, at + 2), 16));
  return shares.map((share) => {
    const x = Math.round((62 + share * (canvas.clientWidth - 62 - 32)) * scale);
    const { data } = canvas.getContext('2d').getImageData(x, 0, 1, canvas.height);
    const isInk = (pixel) => wanted.every((value, at) => Math.abs(data[4 * pixel + at] - value) < 24);
    return Array.from({ length: canvas.height }, (_, pixel) => isInk(pixel)).includes(true);
  });
}
